"""Job types of the tests of limits. They keep a record of their own, which no supervisor knows of."""

import asyncio
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqljobs


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time; the lock goes with its holder, however that ends."""
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@sqljobs.handler(max_attempts=50, backoff=sqljobs.exponential(first=0.01, cap=0.02))
def counted(folder: Path, seconds: float = 0.02, together: int = 1) -> None:
    """Notes how many run at once, itself among them: "JOB ATTEMPT PID COUNT TIME" in one line for each start.

    The first ones stay until so many run `together`."""
    job = sqljobs.current_job()
    mine = folder / f"run-{os.getpid()}"
    with locked(folder):
        living = [path for path in folder.glob("run-*") if is_alive(int(path.name[4:]))]
        mine.touch()
        with (folder / "starts").open("a") as starts:
            moment = time.clock_gettime(time.CLOCK_BOOTTIME)
            starts.write(f"{job.id} {job.attempt} {os.getpid()} {len(living) + 1} {moment}\n")
        if len(living) + 1 >= together:
            (folder / "together").touch()
    while not (folder / "together").exists():
        time.sleep(0.02)
    time.sleep(seconds)
    with locked(folder):
        mine.unlink()


@sqljobs.handler(max_attempts=1)
def spends(amounts: list[str], end: str = "return") -> list[str]:
    """Spends so much, one after the other, and ends as told; returns what was left each time."""
    job = sqljobs.current_job()
    left = [str(job.spend("usd", amount)) for amount in amounts]
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "raise":
        raise ValueError("no")
    return left


@sqljobs.handler(max_attempts=1)
def takes(name: str, count: int, side: Path) -> int:
    """Takes one of a limit so many times, and notes when."""
    for _ in range(count):
        sqljobs.current_job().take(name)
        with side.open("a") as notes:
            notes.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME)}\n")
    return count


@sqljobs.handler(max_attempts=1)
async def takes_async(name: str, count: int) -> int:
    """Takes one of a limit in several tasks at once, while another goes on; returns how often that one could."""
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    other = asyncio.create_task(beat())
    await asyncio.gather(*(sqljobs.current_job().take_async(name) for _ in range(count)))
    other.cancel()
    return turns


@sqljobs.handler(max_attempts=1)
def gives_up(name: str) -> str:
    """Waits for what is not to be had, for a while."""
    try:
        sqljobs.current_job().take(name, timeout=0.2)
    except sqljobs.LimitTimeout as error:
        return str(error)
    return "taken"


@sqljobs.handler(max_attempts=1)
def number_wanted(number: int) -> int:
    return number
