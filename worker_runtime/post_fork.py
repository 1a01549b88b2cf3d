"""Undoes what a forked child inherited from the supervisor: signals, descriptors, streams, connections.

First thing in the child. Everything that could fail late is looked up before the fork; it must open no
connection and import nothing."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Iterable

from sqlalchemy import Engine

from sqljobs.worker_runtime.job_output import line_buffer_c_streams, line_writer
from sqljobs.worker_runtime.process_mark import Mark, carry

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_OOM_SCORE_RAISE = 500
_OOM_SCORE_MAX = 1000

# What the interpreter itself ignores at its start, so that writing to a closed pipe is an OSError.
_IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_NOT_SETTABLE = frozenset({signal.SIGKILL, signal.SIGSTOP})

# Inherited objects whose end would act on the parent's sockets, files or buffers: kept, so that they never end.
_KEPT: list[object] = []


def settle_in(
    *, parent_pid: int, keep_fds: Iterable[int], mark: Mark | None = None, output_fd: int | None = None
) -> None:
    """Make the calling process a child of its own: call it once, first, right after the fork, all signals blocked.

    `parent_pid`: the supervisor's pid, taken before the fork; if that process is gone, so is this one at once.
    `keep_fds`: inherited descriptors that stay usable besides 0, 1 and 2. `mark`: what it, and all that it starts, can
    be found by. `output_fd`: where stdout and stderr go; None: both to stderr as it is. Afterwards: own session and
    process group, SIGKILL when the parent dies, signals as in a fresh interpreter (so SIGINT raises KeyboardInterrupt,
    as in any Python program) and none blocked, stdin empty. Raises OSError when the kernel refuses the session or the
    death signal."""
    if os.getsid(0) != os.getpid():  # a program was given its session at its start
        os.setsid()
    die_with(parent_pid)
    if mark is not None:
        carry(mark)
    _reset_signals()
    _point_streams(output_fd)
    _deaden_descriptors({0, 1, 2, *keep_fds, *(() if output_fd is None else (output_fd,))})
    _renew_streams(output_fd)
    _reseed()
    _offer_to_oom_killer()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def silence_signals() -> None:
    """The handler is done: no handler of signals, or timer, that it installed may disturb what follows. SIGKILL may."""
    while True:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            # Its threads still take them, and would have its handlers run in this one.
            for number in signal.valid_signals():
                if callable(signal.getsignal(number)):
                    signal.signal(number, signal.SIG_IGN)
            return
        except BaseException:  # noqa: BLE001 - raised by such a handler, for a signal that had come already
            continue


def known_engines() -> list[Engine]:
    """All SQLAlchemy engines alive in this process, asynchronous ones by their inner engine.

    For the parent, before the fork and before `gc.freeze()`: it walks all objects."""
    # type(), not isinstance(): a proxy's __class__ may run user code.
    return [found for found in gc.get_objects() if issubclass(type(found), Engine)]


def forget_inherited_connections(engines: Iterable[Engine]) -> None:
    """Give each engine an empty pool; the parent's connections are neither used nor closed."""
    for engine in engines:
        # Without a reference the old pool's connections would be closed by the garbage collector.
        _KEPT.append(engine.pool)
        engine.dispose(close=False)


def die_with(parent_pid: int) -> None:
    """From now on SIGKILL ends this process when the thread that has started it does: the parent's main one.

    Raises OSError when the kernel refuses."""
    if _LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the line above; then no death signal would ever come.
    if os.getppid() != parent_pid:
        os._exit(0)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    faulthandler.disable()
    pending = signal.sigpending()
    for number in signal.valid_signals() - _NOT_SETTABLE:
        if number in pending:
            # Sent to the supervisor's whole group (Ctrl-C) before setsid: ignoring it drops it.
            signal.signal(number, signal.SIG_IGN)
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        else:
            signal.signal(number, signal.SIG_IGN if number in _IGNORED_BY_PYTHON else signal.SIG_DFL)
    # Where a fault of C code ends the process, the stacks say where; after the loop, which resets its signals.
    faulthandler.enable(file=2)


def _point_streams(output_fd: int | None) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    if output_fd is not None:
        os.dup2(output_fd, 2)
    elif not _is_open(2):
        os.dup2(null, 2)
    # The supervisor's own stdout belongs to its --json output.
    os.dup2(2, 1)
    if null > 2:
        os.close(null)
    # Programs that the job starts need them; one that stood in for a closed stream is not inherited otherwise.
    for stream in (0, 1, 2):
        os.set_inheritable(stream, True)


def _deaden_descriptors(keep: set[int]) -> None:
    # Closed numbers would be given to new files, and inherited objects would then act on a stranger. O_PATH,
    # because every use of it fails: over a writable /dev/null an inherited SQLite connection takes its locks
    # for granted and at its end deletes the write-ahead log that the supervisor is using.
    dead = os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in keep and number != dead and _is_open(number):
            try:
                os.dup2(dead, number, inheritable=False)
            except OSError:  # a number above the limit that is in force by now: nobody will be given it
                os.close(number)
    os.close(dead)


def _is_open(number: int) -> bool:
    try:
        os.get_inheritable(number)
    except OSError:
        return False
    return True


def _renew_streams(output_fd: int | None) -> None:
    # The old ones may hold text that the parent has yet to write, or lead to a descriptor that is dead by now.
    _KEPT.extend((sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__))
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = line_writer(1, output_fd)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = line_writer(2, output_fd)  # type: ignore[misc]
    line_buffer_c_streams()


def _reseed() -> None:
    # The standard library's generator reseeds itself after a fork; numpy's global one does not.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _offer_to_oom_killer() -> None:
    # Where /proc is read-only or a security policy forbids it, the kernel chooses as it always did.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+", encoding="ascii") as score:
        raised = min(int(score.read()) + _OOM_SCORE_RAISE, _OOM_SCORE_MAX)
        score.seek(0)
        score.write(str(raised))
