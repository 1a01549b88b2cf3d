"""Job types that are over their time, each with another idea of how to be stopped; and some that hold much memory."""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

import sqljobs

SHORT: dict[str, Any] = {"timeout": 1, "max_attempts": 1}
EVERY = 1 << 16


def stay() -> NoReturn:
    while True:
        time.sleep(600)


@sqljobs.handler(**SHORT)
def plain() -> None:
    stay()


@sqljobs.handler(**SHORT)
def looks() -> str | None:
    """Ends by itself when it is asked to."""
    job = sqljobs.current_job()
    while job.stopping is None:
        time.sleep(0.02)
    return job.stopping


@sqljobs.handler(**SHORT)
def catches() -> str:
    try:
        stay()
    except sqljobs.Stopping as stopping:
        return f"caught {stopping}"


@sqljobs.handler(**SHORT)
def turns_into_an_error() -> None:
    try:
        stay()
    except BaseException as error:
        raise ValueError("as it says") from error


@sqljobs.handler(**SHORT)
def swallows() -> None:
    while True:
        try:
            time.sleep(0.05)
        except BaseException:  # noqa: BLE001 - that is the point
            continue


@sqljobs.handler(**SHORT)
def blocks_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    stay()


@sqljobs.handler(**SHORT)
def blocks_every_signal() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    stay()


@sqljobs.handler(**SHORT)
def sleeps_in_c() -> None:
    """A signal ends the wait, and it waits again before any Python code has run."""
    _lock_twice(ctypes.CDLL(None))


@sqljobs.handler(**SHORT)
def holds_the_lock() -> None:
    """Of the interpreter: no handler of signals that is written in Python ever runs."""
    _lock_twice(ctypes.PyDLL(None))


def _lock_twice(library: ctypes.CDLL) -> None:
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


@sqljobs.handler(**SHORT)
def closes_every_descriptor() -> None:
    os.closerange(0, EVERY)
    stay()


@sqljobs.handler(**SHORT)
def has_threads() -> None:
    thread = threading.Thread(target=stay, name="second")
    thread.start()
    thread.join()


@sqljobs.handler(**SHORT)
def keeps_its_own_handler() -> str:
    came = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: came.set())
    while not came.wait(0.05):
        continue
    return "its own"


@sqljobs.handler(**SHORT)
async def asynchronous() -> None:
    await asyncio.sleep(600)


@sqljobs.handler(**SHORT)
async def tidies_up() -> str:
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)
        return "tidy"
    return "never"


@sqljobs.handler(**SHORT)
async def asynchronous_and_deaf() -> None:
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


@sqljobs.handler(**SHORT)
def is_paused() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    stay()


@sqljobs.handler(max_attempts=1)
def is_sent_sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    stay()


@sqljobs.handler(max_attempts=1)
def terminates_a_worker() -> int | None:
    """The worker holds the interpreter's lock, and can be ended by SIGTERM as long as nobody catches it."""
    worker = multiprocessing.get_context("fork").Process(target=_lock_twice, args=(ctypes.PyDLL(None),))
    worker.start()
    while "S" not in _state_of(worker.pid):
        time.sleep(0.01)
    worker.terminate()
    worker.join(30)
    return worker.exitcode


def _state_of(pid: int | None) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


@sqljobs.handler(max_attempts=1)
def waits() -> str:
    stay()


@sqljobs.handler(max_attempts=1)
def returns_when_asked() -> str | None:
    return looks()


MIB = 2**20


def hold(mib: int) -> bytearray:
    held = bytearray(mib * MIB)
    held[::4096] = b"x" * len(held[::4096])
    return held


@sqljobs.handler(memory="200MiB", max_attempts=1)
def hogs() -> None:
    held = hold(300)
    stay()
    del held


@sqljobs.handler(memory="200MiB", max_attempts=1)
def hogs_and_ends() -> str | None:
    held = hold(300)
    job = sqljobs.current_job()
    while job.stopping is None:
        time.sleep(0.02)
    del held
    return job.stopping


HOG = "import time; held = bytearray(120 << 20); held[::4096] = b'x' * len(held[::4096]); time.sleep(600)"


@sqljobs.handler(memory="300MiB", max_attempts=1)
def hogs_together(bare: bool = False) -> None:
    """Each of its processes is below the limit; one has left its session and its parents, and its mark, if `bare`."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-c", HOG], {} if bare else dict(os.environ))
        os._exit(0)
    subprocess.Popen([sys.executable, "-c", HOG])
    held = hold(120)
    stay()
    del held


@sqljobs.handler(memory="300MiB", max_attempts=1)
def shares(workers: int) -> str:
    """Forks what shares its memory: together far above the limit if that were counted once for each."""
    held = hold(120)
    pids = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            time.sleep(3)
            os._exit(len(held) & 1)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    return "well"


@sqljobs.handler(max_attempts=1)
def grows() -> None:
    """Without a limit of ours."""
    held = []
    while True:
        held.append(hold(10))
