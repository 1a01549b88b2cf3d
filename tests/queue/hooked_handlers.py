"""Job types whose children run hooks; some hooks fail, hang or die, for the jobs that ask for it."""

import ctypes
import logging
import logging.handlers
import os
import signal
import time
from pathlib import Path

import sqljobs
from sqljobs.schema.errors import DatabaseUnavailable
from sqljobs.worker_runtime import child, child_hooks

child_hooks.HOOK_SECONDS = 0.3
child.LEAVE_SECONDS = 1.0
SIDE = Path(os.environ["HOOKS_SIDE"])
LONG = 600
LOG = logging.getLogger("shop")
LOG.setLevel(logging.INFO)
# The descriptor of a file that was opened before the fork would be of no use in the child.
LOG.addHandler(logging.handlers.MemoryHandler(1000, 99, logging.FileHandler(f"{SIDE}.log", delay=True)))


def note(word: str) -> None:
    job = sqljobs.current_job()
    with SIDE.open("a") as side:
        side.write(f"{job.id} {word}\n")


@sqljobs.on_child_start
def start_first() -> None:
    note("start 1")
    print("printed by a start hook")


@sqljobs.on_child_start
def start_fails() -> None:
    if sqljobs.current_job().type == "beset":
        raise ValueError("of the start")


@sqljobs.on_child_start
def start_hangs() -> None:
    if sqljobs.current_job().type == "beset":
        time.sleep(LONG)


@sqljobs.on_child_start
def start_dies() -> None:
    job = sqljobs.current_job()
    if (job.type, job.attempt) == ("dies_in_a_start_hook", 1):
        os.kill(os.getpid(), signal.SIGKILL)


@sqljobs.on_child_start
def start_last() -> None:
    note("start 2")


@sqljobs.on_child_end
def end_last() -> None:
    note("end 2")
    LOG.info("of job %s", sqljobs.current_job().id)


@sqljobs.on_child_end
def end_hangs() -> None:
    match sqljobs.current_job().type:
        case "beset":
            time.sleep(LONG)
        case "unwritten_and_hangs_in_c":
            mutex = ctypes.create_string_buffer(64)
            for _ in range(2):
                ctypes.PyDLL(None).pthread_mutex_lock(mutex)


@sqljobs.on_child_end
def end_fails() -> None:
    if sqljobs.current_job().type == "beset":
        raise SystemExit(9)


@sqljobs.on_child_end
def end_first() -> None:
    note("end 1")
    print("printed by an end hook", end="" if sqljobs.current_job().type == "plain" else "\n")


@sqljobs.handler(max_attempts=1)
def plain() -> str:
    note("handler")
    return "well"


beset = sqljobs.handler("beset", max_attempts=1)(lambda: note("handler"))
dies_in_a_start_hook = sqljobs.handler("dies_in_a_start_hook", max_attempts=1)(lambda: note("handler"))


@sqljobs.handler(max_attempts=1)
def raises() -> None:
    raise KeyError("of the handler")


@sqljobs.handler(max_attempts=1)
def takes(number: int) -> int:
    return number


@sqljobs.handler(max_attempts=1, timeout=0.5)
def too_long() -> None:
    time.sleep(LONG)


@sqljobs.handler(max_attempts=1)
def dies() -> None:
    os._exit(3)


@sqljobs.handler(max_attempts=1)
def unwritten() -> None:
    """Its database is away when its end is to be written."""

    def away(*_: object) -> bool:
        raise DatabaseUnavailable("away")

    child.__dict__["write_end"] = away


unwritten_and_hangs_in_c = sqljobs.handler("unwritten_and_hangs_in_c", max_attempts=1)(lambda: unwritten())


@sqljobs.handler(max_attempts=1)
def taken_over() -> None:
    """Another supervisor has it when its end is to be written."""
    child.__dict__["write_end"] = lambda *_: False
