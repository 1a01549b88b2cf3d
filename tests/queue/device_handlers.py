"""Job types that use units of a device. Each locks the file of its unit, for as long as any process of it lives."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import sqljobs

VARIABLE = "TEST_GPUS"
TEN_MINUTES = 600


def note(side: str, word: str) -> None:
    """One line in one write."""
    job = sqljobs.current_job()
    line = {"word": word, "job": job.id, "pid": os.getpid(), "units": list(job.devices.get("gpu", ()))}
    descriptor = os.open(side, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, (json.dumps(line) + "\n").encode())
    os.close(descriptor)


@contextmanager
def units_locked(side: str) -> Iterator[dict[str, Any]]:
    """The kernel keeps the lock until the last process that has inherited it is gone. Not given back at the end."""
    units = sqljobs.current_job().devices.get("gpu", ())
    for unit in units:
        descriptor = os.open(f"{side}-{unit}", os.O_CREAT | os.O_RDWR)
        os.set_inheritable(descriptor, True)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(side, "clash")
            raise sqljobs.Fail(f"another job is on unit {unit}") from None
    note(side, "begin")
    yield {"units": list(units), "variable": os.environ.get(VARIABLE)}
    note(side, "end")


@sqljobs.handler(uses={"gpu": 1}, max_attempts=1)
def on_one(side: str, seconds: float = 0.1) -> dict[str, Any]:
    with units_locked(side) as found:
        time.sleep(seconds)
    return found


@sqljobs.handler(uses={"gpu": 2}, max_attempts=1)
def on_two(side: str) -> dict[str, Any]:
    with units_locked(side) as found:
        time.sleep(0.1)
    return found


@sqljobs.handler(max_attempts=1)
def on_none(side: str) -> dict[str, Any]:
    with units_locked(side) as found:
        return found


def _hop(until: float) -> NoReturn:
    """A process that is another one all the time, and keeps its locks."""
    while time.monotonic() < until:
        if os.fork() != 0:
            os._exit(0)
    os._exit(0)


@sqljobs.handler(uses={"gpu": 1}, max_attempts=1)
def dies_and_leaves(side: str, hopping: bool) -> None:
    """Killed while a grandchild in a session of its own stays on the unit, and maybe another that is hard to catch."""
    with units_locked(side):
        for hops in (True, False) if hopping else (False,):
            if os.fork() == 0:
                os.setsid()
                if hops:
                    _hop(time.monotonic() + 60)
                time.sleep(TEN_MINUTES)
                os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


@sqljobs.handler(uses={"gpu": 1}, max_attempts=1)
def leaves_a_daemon(side: str) -> None:
    """On the unit; nothing shows of which job it is, but that there was none other when it came."""
    with units_locked(side):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execve("/bin/sleep", ["sleep", str(TEN_MINUTES)], {})
            os._exit(0)
        os.wait()


@sqljobs.handler(max_attempts=1)
def waits(side: str, gate: Path) -> None:
    note(side, "waits")
    while not gate.exists():
        time.sleep(0.02)


@sqljobs.handler(uses={"gpu": 1}, max_attempts=3, backoff=sqljobs.exponential(first=0.05, cap=0.1))
def stays_on_one(side: str, gate: Path) -> dict[str, Any]:
    """With a grandchild on the unit, until the gate opens."""
    with units_locked(side) as found:
        if os.fork() == 0:
            os.setsid()
            note(side, "grandchild")
            time.sleep(TEN_MINUTES)
            os._exit(0)
        while not gate.exists():
            time.sleep(0.02)
    return found
