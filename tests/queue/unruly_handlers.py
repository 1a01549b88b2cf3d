"""Job types that leave their process in a state in which ending is hard."""

import os
import signal
import sys
import threading
import time
from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import sqljobs

kept: list[Any] = []


@sqljobs.handler(max_attempts=1)
def forks_a_copy(gate: str) -> str:
    """The copy returns into our frames at once; the job itself goes on until the gate opens."""
    if os.fork() == 0:
        return "copy"
    deadline = time.monotonic() + 60
    while not os.path.exists(gate) and time.monotonic() < deadline:
        time.sleep(0.02)
    return "job"


@sqljobs.handler(max_attempts=1)
def leaves_a_session_open(url: str) -> str:
    engine: Engine = sqljobs.create_engine(url)
    session = Session(engine)
    session.execute(text("SELECT 1"))
    kept.append(session)
    return "well"


@sqljobs.handler(max_attempts=1)
def snoozes_without_a_time() -> None:
    class Unfinished(sqljobs.Snooze):
        def __init__(self) -> None:
            Exception.__init__(self, "no time given")

    raise Unfinished


@sqljobs.handler(max_attempts=1)
def raises_what_cannot_be_shown() -> None:
    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise RuntimeError("no name")

    raise Meta("Nameless", (Exception,), {})("message")


@sqljobs.handler(max_attempts=1)
def rings_for_ever() -> str:
    """When it has returned, and used the CPU for a while; its thread takes what is blocked elsewhere."""

    def ring(_number: int, _frame: object) -> None:
        raise RuntimeError("ring")

    threading.Thread(target=time.sleep, args=(600,)).start()
    signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.005, 0.002)
    return "well"


@sqljobs.handler(max_attempts=1)
def breaks_stdout() -> str:
    sys.stdout = None
    return "well"
