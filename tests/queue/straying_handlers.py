"""Job types that leave processes behind, each in another way. What they leave notes its pid in a side file."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import sqljobs

KINDS = ("plain", "deaf", "setsid", "double")
WAYS = ("fork", "exec", "bare")  # a mere fork; a program; a program with an empty environment
TEN_MINUTES = 600


def note(side: str, *words: object) -> None:
    """One line in one write: who, and its pid."""
    descriptor = os.open(side, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, (" ".join(map(str, (*words, os.getpid()))) + "\n").encode())
    os.close(descriptor)


def stay() -> NoReturn:
    time.sleep(TEN_MINUTES)
    os._exit(0)


def leave_behind(side: str, kind: str, way: str) -> None:
    """Start a grandchild of the supervisor that stays, and wait until it has noted itself."""
    if os.fork() == 0:
        if kind in ("setsid", "double"):
            os.setsid()
        if kind == "double" and os.fork() != 0:
            os._exit(0)
        if kind == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note(side, kind, way)
        if way != "fork":
            environment = {} if way == "bare" else dict(os.environ)
            os.execve("/bin/sleep", ["sleep", str(TEN_MINUTES)], environment)
        stay()
    wanted, deadline = f"{kind} {way} ", time.monotonic() + 60
    while not (os.path.exists(side) and wanted in Path(side).read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)


@sqljobs.handler(timeout=2, max_attempts=1)
def hangs_with(side: str, kind: str, way: str, deaf: bool) -> None:
    if deaf:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    leave_behind(side, kind, way)
    stay()


@sqljobs.handler(max_attempts=1)
def ends_with(side: str, kind: str, way: str) -> str:
    leave_behind(side, kind, way)
    return "well"


@sqljobs.handler(max_attempts=1)
def dies_with(side: str, kind: str, way: str) -> None:
    leave_behind(side, kind, way)
    os.kill(os.getpid(), signal.SIGKILL)


@sqljobs.handler(max_attempts=3, backoff=sqljobs.exponential(first=0.05, cap=0.1))
def stays_with(side: str, kind: str, way: str, gate: str) -> str:
    """With a grandchild, until the gate opens."""
    leave_behind(side, kind, way)
    deadline = time.monotonic() + TEN_MINUTES
    while not os.path.exists(gate) and time.monotonic() < deadline:
        time.sleep(0.02)
    return "released"


def _hop() -> NoReturn:
    """A process that is another one all the time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if os.fork() != 0:
            os._exit(0)
    os._exit(0)


def _breed(side: str, depth: int) -> NoReturn:
    """63 processes of which each has forked the next two."""
    note(side, "breed", depth)
    if depth:
        for _ in range(2):
            if os.fork() == 0:
                _breed(side, depth - 1)
    stay()


def _detached(body: Callable[[], NoReturn]) -> None:
    if os.fork() == 0:
        os.setsid()
        body()


@sqljobs.handler(max_attempts=1)
def leaves_a_bomb(side: str) -> str:
    _detached(_hop)
    _detached(lambda: _breed(side, 5))
    return "well"


@sqljobs.handler(max_attempts=1)
def leaves_a_zombie(side: str) -> str:
    """A daemon that ends before its job does: nobody but the supervisor can wait for it."""
    if os.fork() == 0:
        if os.fork() == 0:
            note(side, "zombie", "fork")
            time.sleep(0.1)
        os._exit(0)
    os.wait()
    time.sleep(2)
    return "well"


@sqljobs.handler(max_attempts=1)
def calls_a_program() -> str:
    return subprocess.run(["/bin/echo", "hello"], check=True, capture_output=True, text=True).stdout.strip()
