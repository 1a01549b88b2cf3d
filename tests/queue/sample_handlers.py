"""Job types of the end-to-end tests. Each notes its start in a side file that no supervisor knows of."""

import ctypes
import os
import random
import signal
import threading
import time
from pathlib import Path

import sqljobs


def note(side: str, word: str = "start") -> None:
    """One line in one write, so that processes cannot mix theirs: word, job, attempt, pid, boot-time nanoseconds."""
    job = sqljobs.current_job()
    moment = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    line = f"{word} {job.id} {job.attempt} {os.getpid()} {moment}\n"
    descriptor = os.open(side, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@sqljobs.handler
def quick(side: str) -> None:
    note(side)


@sqljobs.handler
def after_all(side: str) -> list[int]:
    """Fails unless all that it names are committed as done when it starts."""
    note(side)
    upstream = sqljobs.current_job().upstream
    late = [job.id for job in upstream if job.state != "done"]
    if late:
        raise sqljobs.Fail(f"started before {late} were done")
    return [job.id for job in upstream]


@sqljobs.handler
def hold(side: str, until: Path) -> str:
    """Runs until the file `until` exists."""
    note(side)
    while not until.exists():
        time.sleep(0.02)
    return "released"


@sqljobs.handler(timeout=1, max_attempts=1)
def deaf(side: str) -> None:
    """Blocks every signal and sleeps in C."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    note(side)
    time.sleep(600)


@sqljobs.handler(max_attempts=3, backoff=sqljobs.exponential(first=0.05, cap=0.1))
def ends(how: str) -> str:
    """Ends its first attempt in the way asked for, and its second well."""
    if sqljobs.current_job().attempt > 1:
        return "second"
    match how:
        case "raise":
            raise ValueError("as asked")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(0)
        case "system_exit":
            raise SystemExit(0)
        case "keyboard":
            raise KeyboardInterrupt
        case "retry":
            raise sqljobs.Retry(after=0.05)
        case "snooze":
            raise sqljobs.Snooze(0.05)
        case "fail":
            raise sqljobs.Fail("no use")
        case "cancel":
            raise sqljobs.Cancel("not wanted")
        case "bad_result":
            return object()  # type: ignore[return-value]
        case "nan":
            return float("nan")  # type: ignore[return-value]
    return "first"


@sqljobs.handler
async def asynchronous(number: int) -> int:
    return number + 1


@sqljobs.handler
def nap(seconds: float) -> None:
    time.sleep(seconds)


@sqljobs.handler
def hog(side: str, seconds: int) -> None:
    """Sleeps in C with the interpreter's lock held, so that no Python code of this process runs meanwhile."""
    note(side)
    ctypes.PyDLL(None).sleep(seconds)
    note(side, "end")


@sqljobs.handler(max_attempts=100, backoff=sqljobs.exponential(first=0.05, cap=0.2))
def effect(side: str) -> str:
    """Has its effect at once and goes on for a while, so that it can be killed past it."""
    note(side)
    time.sleep(0.15)
    return sqljobs.current_job().idempotency_key


@sqljobs.handler
def looks_back() -> list[list[object]]:
    """What it was there to follow."""
    upstream = sqljobs.current_job().upstream
    return [[job.id, job.state, job.reason.code if job.reason is not None else None] for job in upstream]


@sqljobs.handler(max_attempts=20, backoff=sqljobs.exponential(first=0.05, cap=0.1))
def spawns(children: int, how: str = "well") -> str:
    """Adds members to its job, and a follower. `killed`: the first tries, by SIGKILL at any moment around the end."""
    job = sqljobs.current_job()
    members = [job.spawn("nobody's", {"number": number}) for number in range(children)]
    job.enqueue("nobody's", {"number": -1}, after=[job.id, members[0]] if members else [job.id])
    if how == "killed" and job.attempt <= 2:
        killer = threading.Timer(random.uniform(0, 0.08), os.kill, (os.getpid(), signal.SIGKILL))
        killer.daemon = True
        killer.start()
    elif how == "refused":
        job.enqueue("nobody's", after=[10**9])
    elif how == "fails":
        raise sqljobs.Fail("no use")
    return "spawned"


@sqljobs.handler
def divides(into: int) -> int:
    """Spawns so many jobs of its own kind, each of which spawns one less."""
    for _ in range(into):
        sqljobs.current_job().spawn("divides", {"into": into - 1})
    return into


@sqljobs.handler
def gathers() -> list[list[object]]:
    """The results in the containers that it waited for."""
    return [[child.result for child in upstream.children()] for upstream in sqljobs.current_job().upstream]


@sqljobs.handler
def adds_own_member(url: str) -> str:
    """Enqueues a member in a transaction of its own, while it runs."""
    engine = sqljobs.create_engine(url)
    with engine.begin() as conn:
        sqljobs.enqueue(conn, "asynchronous", {"number": 41}, parent=sqljobs.current_job().id)
    engine.dispose()
    return "own"
