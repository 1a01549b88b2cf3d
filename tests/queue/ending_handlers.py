"""Job types that end in unusual ways; what is to become of them is the table in endings.py."""

import asyncio
import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

import sqljobs
import sqljobs.supervisor.attempts
from tests.queue import ladder_handlers, printing_handlers, unruly_handlers
from tests.queue.ladder_handlers import stay
from tests.queue.straying_handlers import KINDS, WAYS, leave_behind

# The job types of these modules are provided with our own.
OTHERS = (ladder_handlers, printing_handlers, unruly_handlers)
LOCK = threading.Lock()
KEPT: list[object] = []

# Enough for a handler to be reached on a loaded machine; the half minute of the contract is too long for a test.
sqljobs.supervisor.attempts.__dict__["HANDLER_REACHED_WITHIN"] = 10.0


@dataclass(frozen=True)
class Deadly:
    """An argument that does `what` when it is converted: in the child, before the handler."""

    what: str

    def __post_init__(self) -> None:
        first = sqljobs.current_job().attempt == 1
        match self.what:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill once" if first:
                os.kill(os.getpid(), signal.SIGKILL)
            case "lock" if first:  # as if another thread had held it at the fork
                LOCK.acquire()
                LOCK.acquire()
            case "raise":
                raise ValueError("no such thing")
            case "exit":
                sys.exit("no such thing")


@sqljobs.handler(max_attempts=1)
def takes(thing: Deadly) -> str:
    return f"well, attempt {sqljobs.current_job().attempt}, {thing.what}"


@sqljobs.handler(max_attempts=1, backoff=sqljobs.exponential(first=0.05, cap=0.1), fail_on=(ZeroDivisionError, "exit"))
def ends_by(how: str) -> str:
    """The first attempt ends in another way than by returning; a second one returns, but after `SIGKILL`."""
    job = sqljobs.current_job()
    print(f"ends by {how}", flush=True)
    if job.attempt == 1 or how == "SIGKILL":
        WAYS_TO_END[how]()
    return f"well, attempt {job.attempt}"


def fail(error: BaseException) -> NoReturn:
    raise error


def fail_after(causes: int) -> NoReturn:
    try:
        if causes:
            fail_after(causes - 1)
        raise KeyError("the first")
    except Exception as error:
        raise ValueError(f"number {causes}") from error


def recurse() -> None:
    recurse()


def burn() -> NoReturn:
    resource.setrlimit(resource.RLIMIT_CPU, (1, 5))
    while True:
        os.getpid()


def exec_program() -> NoReturn:
    os.execv("/bin/sh", ["sh", "-c", "echo from the program; exit 3"])


def lie() -> NoReturn:
    """Say into the pipe to the supervisor, wherever that is, that the end is written."""
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith("pipe:"):
                os.write(number, b"F")
    os._exit(3)


WAYS_TO_END: dict[str, Any] = {
    "ValueError": lambda: fail(ValueError("as asked")),
    "ZeroDivisionError": lambda: fail(ZeroDivisionError("to no avail")),
    "sys.exit(0)": lambda: sys.exit(0),
    "KeyboardInterrupt": lambda: fail(KeyboardInterrupt()),
    "BaseException": lambda: fail(BaseException("of no class")),
    "Stopping": lambda: fail(sqljobs.Stopping("unasked")),
    "CancelledError": lambda: fail(asyncio.CancelledError("unasked")),
    "hostile text": lambda: fail(ValueError("NUL \0, a surrogate \ud800, " + "x" * 5_000_000)),
    "long chain": lambda: fail_after(150),
    "recursion": recurse,
    "MemoryError": lambda: bytearray(2**62),
    "os._exit(0)": lambda: os._exit(0),
    "os._exit(70)": lambda: os._exit(70),
    "exec": exec_program,
    "a lie": lie,
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "SIGHUP to its group": lambda: os.killpg(0, signal.SIGHUP),
    "SIGSEGV": lambda: ctypes.string_at(0),
    "SIGABRT": os.abort,
    "SIGXCPU": burn,
    "Snooze": lambda: fail(sqljobs.Snooze(0.05)),
    "Retry": lambda: fail(sqljobs.Retry(after=0.05)),
    "Fail": lambda: fail(sqljobs.Fail("no use")),
    "Cancel": lambda: fail(sqljobs.Cancel("not wanted")),
}


@sqljobs.handler(max_attempts=1)
def gives(what: str) -> object:
    """Returns what cannot be stored."""
    results = {"object": object(), "NaN": float("nan"), "surrogate": "\ud800", "NUL": "\0", "huge": "x" * (5 << 20)}
    return results[what]


@sqljobs.handler(max_attempts=1, memory="250MiB")
def recurses_for_ever() -> None:
    sys.setrecursionlimit(2**31 - 1)
    deeper(0)


def deeper(depth: int) -> None:
    if depth % 20_000 == 0:
        time.sleep(0.02)  # or it would hold all memory before anybody can look
    deeper(depth + 1)


@sqljobs.handler(max_attempts=1)
def disturbs(how: str, side: str, url: str) -> str:
    """Returns, and leaves its process in a state in which ending is hard."""
    WAYS_TO_DISTURB[how](side, url)
    return "well"


def start_threads(_side: str, _url: str) -> None:
    for _ in range(3):
        threading.Thread(target=stay).start()


def leave_pools(_side: str, _url: str) -> None:
    fork = multiprocessing.get_context("fork")
    pool = fork.Pool(2)
    pool.map_async(time.sleep, [600, 600])
    executor = ProcessPoolExecutor(1, mp_context=fork)
    executor.submit(time.sleep, 600)
    KEPT.extend((pool, executor))


def leave_folder(_side: str, _url: str) -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)
    os.umask(0o777)


def catch_sigchld(_side: str, _url: str) -> None:
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: fail(RuntimeError(f"signal {number}")))
    subprocess.Popen(["sleep", "0.05"])


def take_descriptors(_side: str, _url: str) -> None:
    """All numbers are others than they were."""
    os.closerange(0, 1 << 16)
    KEPT.extend(os.open(os.devnull, os.O_RDWR) for _ in range(100))


def fork_copies(_side: str, _url: str) -> None:
    """They come back into our frames, each in another way; the job itself waits for that."""
    for way in ("return", "raise", "exit"):
        pid = os.fork()
        if pid == 0:
            if way == "raise":
                raise RuntimeError("in a copy")
            if way == "exit":
                sys.exit(3)
            return
        os.waitpid(pid, 0)


def hold_the_writer(_side: str, url: str) -> None:
    """Of SQLite, by a connection that SQLAlchemy knows nothing of."""
    path = make_url(url).database
    if url.startswith("sqlite") and path is not None:
        connection = sqlite3.connect(path)
        connection.execute("BEGIN IMMEDIATE")
        KEPT.append(connection)


def hold_the_writer_asynchronously(_side: str, url: str) -> None:
    """By a connection that lives in a thread of its own."""

    async def hold() -> None:
        engine = create_async_engine(make_url(url).set(drivername="sqlite+aiosqlite"))
        connection = await engine.connect()
        await connection.exec_driver_sql("BEGIN IMMEDIATE")
        KEPT.extend((engine, connection))

    if url.startswith("sqlite"):
        asyncio.run(hold())


def leave_daemons(side: str, _url: str) -> None:
    for kind in KINDS:
        for way in WAYS:
            leave_behind(f"{side}-{kind}-{way}", kind, way)


WAYS_TO_DISTURB: dict[str, Any] = {
    "threads": start_threads,
    "pools": leave_pools,
    "folder": leave_folder,
    "handlers of signals": catch_sigchld,
    "descriptors": take_descriptors,
    "copies": fork_copies,
    "SQLite's writer": hold_the_writer,
    "SQLite's writer in a thread": hold_the_writer_asynchronously,
    "daemons": leave_daemons,
    "environment": lambda *_: os.environ.clear(),
    "blocked signals": lambda *_: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()),
}


@sqljobs.handler(max_attempts=1, backoff=sqljobs.exponential(first=0.05, cap=0.1))
def stays(side: str, how: str) -> str | None:
    """Says that it is there, and waits for what is done to it; a second attempt returns at once."""
    job = sqljobs.current_job()
    if job.attempt > 1:
        return f"well, attempt {job.attempt}"
    Path(side).touch()
    if how == "deaf":
        ladder_handlers.swallows()
    if how == "obeys":
        return ladder_handlers.looks()
    if how == "program":
        os.execv("/bin/sleep", ["sleep", "600"])
    return stay()
