"""What /proc shows of all processes in one pass, and the marks that one of them carries. Reads only, judges nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from sqljobs.worker_runtime.process_mark import Mark, marks_in, stat_fields

_STAT_BYTES = 1024


class Process(NamedTuple):
    """A process, told from later ones with its number by the clock ticks from boot to its start."""

    pid: int
    start_ticks: int


class Sighting(NamedTuple):
    """One process as it was for a moment. `state`: the kernel's letter, such as R, S, D (cannot be interrupted), Z."""

    process: Process
    ppid: int
    group: int
    session: int
    state: str

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZX"


def sight(pid: int) -> Sighting | None:
    """One process; None when it is not there, or hidden from us."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        fields = stat_fields(os.read(descriptor, _STAT_BYTES))
    except (ProcessLookupError, PermissionError):
        return None
    finally:
        os.close(descriptor)
    state, ppid, group, session = fields[:4]
    return Sighting(Process(pid, int(fields[19])), int(ppid), int(group), int(session), state.decode())


def numbers() -> dict[int, int]:
    """The numbers of all processes that this one may see, each with the inode of its folder in /proc: another process
    that has the number later has another inode."""
    with os.scandir("/proc") as entries:
        return {int(entry.name): entry.inode() for entry in entries if entry.name.isdigit()}


def sightings(pids: Iterable[int] | None = None) -> list[Sighting]:
    """All processes, or those with these numbers. One that was forked, or ended, meanwhile may be missing."""
    found = map(sight, numbers() if pids is None else pids)
    return [one for one in found if one is not None]


def marks_of(seen: Sighting) -> frozenset[Mark] | None:
    """The marks of this process; None when it cannot be told now: not ours to read, ended, or between two programs."""
    # Reading the memory of a process that hangs in the kernel may hang, too.
    if not seen.is_alive or seen.state == "D":
        return None
    # In this order: an exec in between takes the mapping away, and shows the mark in the environment only from then on.
    maps, environ = (_read(f"/proc/{seen.process.pid}/{name}") for name in ("maps", "environ"))
    found = marks_in(environ, maps)
    # An environment is never empty, but for a program that was given none, and within an exec.
    return found if found or environ else None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError:  # it ended meanwhile, or is another user's
        return b""
