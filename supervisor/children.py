"""The table of live children. The one place that starts processes, waits and signals; it decides nothing and knows no
jobs."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any, Generic, NoReturn

from sqljobs.supervisor.boot_clock import boottime
from sqljobs.supervisor.child_process import REPORT_FD, K, Program
from sqljobs.supervisor.child_process import Child as Child
from sqljobs.supervisor.child_process import Ended as Ended
from sqljobs.supervisor.child_process import ForkFailed as ForkFailed
from sqljobs.supervisor.child_process import ThreadsAlive as ThreadsAlive
from sqljobs.supervisor.liveness import other_threads, start_ticks_of
from sqljobs.supervisor.sightings import Sighting, sight
from sqljobs.supervisor.signal_mask import signals_blocked

OWN_FAULT = 70
# What a pipe holds by default: one read of that size empties it.
_PIPE_BYTES = 65536
# A dead child that is only looked at keeps its number from being given away.
_LOOK_ONLY = os.WEXITED | os.WNOHANG | os.WNOWAIT


class Children(Generic[K]):
    """The children of this process, by key. For the main thread alone: a child dies with the thread that forked it."""

    def __init__(self) -> None:
        # Inherited from whoever started us; the kernel would then drop every exit status.
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._table: dict[K, Child[K]] = {}
        self._reports: dict[K, bytes] = {}

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Child[K]]:
        """The children now; the table may change meanwhile."""
        return iter(list(self._table.values()))

    def __contains__(self, key: K) -> bool:
        return key in self._table

    def get(self, key: K) -> Child[K] | None:
        """The unreaped child with this key."""
        return self._table.get(key)

    def spawn(self, key: K, run: Callable[[int], NoReturn]) -> Child[K]:
        """Fork a child that calls `run(fd)`, where `fd` is the writing end of a pipe for its reports.

        The child starts with all signals blocked; `run` must unblock them. Whatever `run` raises or returns ends
        the child with exit code 70. Raises `ThreadsAlive`, `ForkFailed`, and KeyError for a key in use."""
        return self._start(key, lambda report_fd: _fork(run, report_fd))

    def execute(self, key: K, program: Program) -> Child[K]:
        """Start `program`; whatever threads this process has. Raises `ForkFailed`, and KeyError for a key in use."""
        return self._start(key, lambda report_fd: _execute(program, report_fd))

    def _start(self, key: K, start: Callable[[int], int]) -> Child[K]:
        if key in self._table:
            raise KeyError(f"{key!r} has a child already")
        # Else a handler of the parent could run in the child, or an exception from one lose a child just started.
        with signals_blocked():
            try:
                child = _watched(key, start)
            except OSError as error:
                raise ForkFailed(error.errno, f"cannot start a child process: {error.strerror}") from error
            self._table[key], self._reports[key] = child, b""
        return child

    def reports(self, child: Child[K]) -> bytes:
        """All that an unreaped child has reported so far."""
        with suppress(BlockingIOError):
            self._reports[child.key] += os.read(child.report_fd, _PIPE_BYTES)
        return self._reports[child.key]

    def signal(self, child: Child[K], number: int, *, group: bool) -> bool:
        """Send a signal to a child, or to all of its process group; False when there was nobody left to take it."""
        # Only an unreaped child keeps its number, as pid and as group, from being given to strangers.
        if self._table.get(child.key) is not child:
            return False
        delivered = group and _signal_group(child.pid, number)
        # Before its setsid the child leads no group yet, and SIGKILL twice does no harm.
        if not delivered or number == signal.SIGKILL:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(child.pidfd, number)
                return True
        return delivered

    def reap(self) -> list[Ended[K]]:
        """Take the children that have ended out of the table, without waiting for any.

        What is left in their process groups is killed."""
        return [self._bury(child) for child in self if _has_ended(child.pid)]

    def _bury(self, child: Child[K]) -> Ended[K]:
        reports = self.reports(child)
        code: int | None = None
        cpu_seconds, max_rss_bytes = 0.0, 0
        # Lost (no such child): other code waited for it, so its number may be a stranger's by now.
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, child.pid, _LOOK_ONLY)
            _signal_group(child.pid, signal.SIGKILL)
            _, status, usage = os.wait4(child.pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status)
            cpu_seconds, max_rss_bytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        del self._table[child.key], self._reports[child.key]
        os.close(child.pidfd)
        os.close(child.report_fd)
        return Ended(
            child,
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            cpu_seconds=cpu_seconds,
            max_rss_bytes=max_rss_bytes,
            reports=reports,
        )


def _watched(key: K, start: Callable[[int], int]) -> Child[K]:
    report_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    pid = pidfd = -1
    try:
        os.set_blocking(report_fd, False)
        forked_at = boottime()
        pid = start(write_fd)
        pidfd = os.pidfd_open(pid)
        start_ticks = start_ticks_of(pid)
        if start_ticks is None:
            raise OSError(errno.ESRCH, "/proc does not show it")
    except BaseException:
        if pid > 0:
            _discard(pid)
        for fd in (report_fd, pidfd):
            if fd >= 0:
                os.close(fd)
        raise
    finally:
        os.close(write_fd)
    return Child(key, pid, start_ticks, pidfd, report_fd, forked_at)


def _fork(run: Callable[[int], NoReturn], report_fd: int) -> int:
    if threads := other_threads():
        raise ThreadsAlive(f"cannot fork while other threads run ({', '.join(threads)}): use start_method='spawn'")
    return os.fork() or _run_as_child(run, report_fd)


def _execute(program: Program, report_fd: int) -> int:
    wanted = {**program.descriptors, REPORT_FD: report_fd}
    actions: list[tuple[Any, ...]] = []
    with ExitStack() as copies:
        # Copies above all numbers that are wanted, so that none takes the place of one that is yet to be moved.
        above = max(wanted) + 1
        for number, source in sorted(wanted.items()):
            copy = fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, above)
            copies.callback(os.close, copy)
            actions.append((os.POSIX_SPAWN_DUP2, copy, number))
        place: dict[str, Any] = {"setsid": True} if program.leads_session else {"setpgroup": 0}
        return os.posix_spawn(
            program.arguments[0],
            list(program.arguments),
            dict(program.environment),
            file_actions=actions,
            setsigmask=program.blocked,
            **place,
        )


def _run_as_child(run: Callable[[int], NoReturn], report_fd: int) -> NoReturn:
    # Nothing may return from here: above lies the parent's stack.
    try:
        run(report_fd)
    except BaseException:  # noqa: BLE001 - an exit by exception would unwind the parent's stack
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(OWN_FAULT)


def _discard(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def ended_child() -> int | None:
    """The number of a child of this process that has ended and waits to be reaped, in a table or not.

    0: none has. None: this process has no child at all."""
    try:
        found = os.waitid(os.P_ALL, 0, _LOOK_ONLY)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else 0


def reap_stray(pid: int) -> None:
    """Wait for a dead child that is in no table."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def kill_stray(seen: Sighting) -> bool:
    """SIGKILL for a process that was seen, and for its group; False when we are not permitted to.

    The group in one blow, since its members may go on forking. Whoever has the numbers by now is not touched."""
    leader = sight(seen.group)
    # 0 and 1 name no group; what we forked is in our session; a number of a younger leader was free in between.
    is_same = leader is None or leader.process.start_ticks <= seen.process.start_ticks
    if is_same and seen.group > 1 and seen.session != os.getsid(0):
        _signal_group(seen.group, signal.SIGKILL)
    try:
        pidfd = os.pidfd_open(seen.process.pid)
    except OSError:  # ended; or no descriptor is free, and the next pass will find it again
        return True
    try:
        if start_ticks_of(seen.process.pid) == seen.process.start_ticks:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except (ProcessLookupError, PermissionError) as error:
        return isinstance(error, ProcessLookupError)
    finally:
        os.close(pidfd)
    return True


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, _LOOK_ONLY) is not None
    except ChildProcessError:
        return True
