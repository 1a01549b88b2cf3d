"""Says which processes, ours or another supervisor's, and threads are alive. The only file that uses psutil.

It never signals and never waits: for our own children the truth is `children.reap`."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

import psutil

from sqljobs.supervisor.sightings import sight


class Liveness(StrEnum):
    """What became of a process."""

    ALIVE = "alive"
    STOPPED = "stopped"  # by a signal or a debugger: it holds what it held, but does nothing
    ZOMBIE = "zombie"  # dead, its parent has not waited for it yet
    GONE = "gone"  # no such process, or its number belongs to another one by now


@dataclass(frozen=True)
class ProcessId:
    """A process, told apart from later ones with the same number.

    `start_ticks`: clock ticks from boot to its start. `boot_id`: see `boot_id()`."""

    pid: int
    start_ticks: int
    boot_id: str


SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
# A thread that was joined stays visible in /proc for a moment.
_THREADS_SETTLE_SECONDS = 0.1


def start_ticks_of(pid: int) -> int | None:
    """Clock ticks from boot to the start of process `pid`; None when there is no such process, or /proc hides it."""
    # psutil's create_time() is shifted by steps of the wall clock; the kernel's own number is not.
    seen = sight(pid)
    return seen.process.start_ticks if seen is not None else None


def probe(pid: int, start_ticks: int) -> Liveness:
    """The state of the process with this number *and* this start; another with the number counts as gone.

    One that /proc hides (mounted with hidepid) counts as alive as long as the number is in use."""
    try:
        status = psutil.Process(pid).status()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return Liveness.ALIVE if _is_hidden(pid) else Liveness.GONE
    except OSError as error:
        return _unknown(error)
    # Asked for after the status: if the number is still this process's now, it was so then.
    try:
        if start_ticks_of(pid) != start_ticks:
            return Liveness.GONE
    except OSError as error:
        return _unknown(error)
    if status in _DEAD:
        return Liveness.ZOMBIE
    return Liveness.STOPPED if status in _STOPPED else Liveness.ALIVE


def is_running(pid: int, start_ticks: int) -> bool:
    """Whether `probe` finds this process neither gone nor dead."""
    return probe(pid, start_ticks) in (Liveness.ALIVE, Liveness.STOPPED)


def _unknown(error: OSError) -> Liveness:
    """Nobody is held for dead because this process is short of descriptors or memory."""
    if error.errno in SHORTAGES:
        return Liveness.ALIVE
    raise error


def _is_hidden(pid: int) -> bool:
    try:
        os.close(os.pidfd_open(pid))
    except ProcessLookupError:
        return False
    except OSError as error:
        # EINVAL, ENOENT: the number of a thread by now, not of a process.
        return error.errno not in (errno.EINVAL, errno.ENOENT)
    return not os.path.exists(f"/proc/{pid}/stat")


def resident_bytes(pid: int) -> int:
    """Memory of this process that is resident, shared pages included; 0 when it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return 0


def proportional_bytes(pid: int) -> int:
    """The same, with each shared page counted as its part among the processes that share it.

    Where the kernel does not say, the resident pages that are not shared; 0 when the process is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as rollup:
            found = [int(line.split()[1]) * 1024 for line in rollup if line.startswith(b"Pss:")]
        if found:
            return found[0]
        info = psutil.Process(pid).memory_info()
        return int(info.rss - info.shared)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return 0


def catches(pid: int, number: int) -> bool:
    """Whether this process has a handler of its own for signal `number`, which would end it otherwise."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            caught = [int(line.split()[1], 16) for line in status if line.startswith(b"SigCgt:")]
    except OSError:
        return False
    return bool(caught) and bool(caught[0] >> (number - 1) & 1)


def probe_all(processes: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Liveness]:
    """`probe` for each (pid, start ticks)."""
    return {(pid, ticks): probe(pid, ticks) for pid, ticks in processes}


def thread_ids() -> frozenset[str]:
    """The kernel's numbers of this process's threads."""
    return frozenset(os.listdir("/proc/self/task"))


def other_threads(besides: Collection[str] = ()) -> list[str]:
    """Names of this process's threads beside the main one and `besides`, those of C libraries too; a fork would not
    copy them."""
    expected = {*besides, str(os.getpid())}
    deadline = time.monotonic() + _THREADS_SETTLE_SECONDS
    while tasks := sorted(thread_ids() - expected, key=int):
        if time.monotonic() > deadline:
            known = {str(thread.native_id): thread.name for thread in threading.enumerate()}
            return [known.get(task) or _name_of(task) for task in tasks]
        time.sleep(0.001)
    return []


def holds_open(path: str) -> bool:
    """Whether this process has a descriptor of the file `path` (an absolute name, links resolved)."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == path:
                return True
        except FileNotFoundError:  # that of the listing itself
            continue
    return False


def boot_id() -> str:
    """This boot of this machine, as this process numbers processes: `<kernel's boot id>.<inode of the pid namespace>`.

    Pids of two supervisors may be compared only where both parts agree: containers on one machine share the
    boot, but each counts its processes for itself. At most 60 characters, no space, no slash."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as text:
        boot = text.read().strip()
    return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"


def own_process() -> ProcessId:
    """The calling process."""
    ticks = start_ticks_of(os.getpid())
    if ticks is None:
        raise OSError("/proc does not show this process: mount the /proc of this pid namespace")
    return ProcessId(os.getpid(), ticks, boot_id())


def usable_cpus() -> int:
    """CPUs that this process may run on (its affinity, not the machine's count)."""
    return len(psutil.Process().cpu_affinity() or ()) or 1


def _name_of(task: str) -> str:
    try:
        with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as name:
            return name.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return f"thread {task}"
