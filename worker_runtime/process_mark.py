"""The mark that all processes of one attempt carry, and what tells a process from later ones with its number.

Set in the child, read by the supervisors of the box; both halves stand here, so that they cannot drift apart."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
from typing import NamedTuple

from sqljobs.schema.moves import Fence
from sqljobs.schema.supervisors import id_of

VARIABLE = "SQLJOBS_JOB"
_NAME = "sqljobs:"

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_PROT_NONE = 0
# Some kernels refuse a memory file without it (sysctl vm.memfd_noexec), those before 6.3 do not know it.
_MFD_NOEXEC_SEAL = 0x0008

_MARK = rb"([1-9]\d{0,18})\.([1-9]\d{0,9})\.([0-9a-f]{32})"
_IN_VARIABLE = re.compile(rb"(?:^|\0)" + VARIABLE.encode() + rb"=([^\0]*)")
_IN_MAPS = re.compile(rb" /memfd:" + _NAME.encode() + _MARK + rb"(?: \(deleted\))?$", re.MULTILINE)
_WORD = re.compile(rb"(?:^|(?<= ))" + _MARK + rb"(?= |$)")


class Mark(NamedTuple):
    """One attempt of one very start of a supervisor, as its processes carry it."""

    job_id: int
    attempt: int
    supervisor_id: str

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}.{self.supervisor_id}"


def mark_of(fence: Fence) -> Mark:
    """The mark of the attempt that `fence` stands for."""
    return Mark(fence.job_id, fence.attempt, id_of(fence.owner))


def carry(mark: Mark) -> None:
    """Mark the calling process, and so all that it starts: programs by the environment, mere forks by a mapping.

    /proc shows the environment as it was at the exec, so that a fork needs a sign of its own: an empty private mapping
    with a name, which no program closes by accident. A job inside a job carries both marks."""
    os.environ[VARIABLE] = marked(mark)
    # Where a policy forbids memory files, the environment, the session and the ancestry are left.
    with contextlib.suppress(OSError):
        _map_nothing(f"{_NAME}{mark}")


def marked(mark: Mark) -> str:
    """The variable's value with this mark, besides those that this process carries already."""
    return " ".join(dict.fromkeys([*os.environ.get(VARIABLE, "").split(), str(mark)]))


def marks_in(environ: bytes, maps: bytes) -> frozenset[Mark]:
    """The marks in the contents of /proc/PID/environ and /proc/PID/maps."""
    found = [match.groups() for match in _IN_MAPS.finditer(maps)]
    variable = _IN_VARIABLE.search(environ)
    if variable is not None:
        found += [match.groups() for match in _WORD.finditer(variable[1])]
    return frozenset(Mark(int(job), int(attempt), supervisor.decode()) for job, attempt, supervisor in found)


def stat_fields(stat: bytes) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on: state, parent, process group, session, ..., start ticks at 19."""
    # The name in parentheses may hold anything, a closing parenthesis too; field 3 follows the last one.
    return stat[stat.rindex(b")") + 1 :].split()


def own_start_ticks() -> int:
    """Clock ticks from boot to the start of this process."""
    with open("/proc/self/stat", "rb") as stat:
        return int(stat_fields(stat.read())[19])


def _map_nothing(name: str) -> None:
    descriptor = _memory_file(name)
    try:
        # Not the mmap module: it keeps a descriptor open, which a handler that closes all would pull away.
        address = _LIBC.mmap(None, mmap.PAGESIZE, _PROT_NONE, mmap.MAP_PRIVATE, descriptor, 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")
    finally:
        os.close(descriptor)


def _memory_file(name: str) -> int:
    with contextlib.suppress(OSError):
        return os.memfd_create(name, os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    return os.memfd_create(name, os.MFD_CLOEXEC)
