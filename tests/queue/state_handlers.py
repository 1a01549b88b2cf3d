"""Job types that keep state over their attempts; their effects are rows of a table beside the queue's own."""

import asyncio
import time
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

import sqljobs
from tests.queue.sample_handlers import note
from tests.schema.effects import effects

QUICK = sqljobs.exponential(first=0.01, cap=0.02)


def effect(session: Session, what: object) -> str:
    """One row for each time that it stays."""
    word = f"{sqljobs.current_job().id} {what}"
    session.execute(insert(effects).values(word=word))
    return word


@sqljobs.handler(max_attempts=100, backoff=sqljobs.exponential(first=0.5, cap=1))
def walks(side: str, steps: int, pieces: int = 1, seconds: float = 0.0) -> list[str]:
    """So many steps, each after a piece of work, and each with a checkpoint; goes on where the last attempt was."""
    job = sqljobs.current_job()
    state: dict[str, Any] = job.last_checkpoint or {"next": 0, "words": []}
    for number in range(state["next"], steps):
        for _ in range(pieces):
            time.sleep(seconds)
            note(side, "work")
        word = job.step(f"step {number}", effect, number, session=True)
        state = {"next": number + 1, "words": [*state["words"], word]}
        job.checkpoint(state)
        job.progress(number + 1, steps)
    job.finalize_with(lambda session: effect(session, "end"))
    words: list[str] = state["words"]
    return words


@sqljobs.handler(max_attempts=3, backoff=QUICK)
async def fetches(side: str) -> list[Any]:
    """Steps side by side, of an attempt that fails, and of one that does not."""
    job = sqljobs.current_job()

    async def fetch(number: int) -> tuple[int, int]:
        note(side, f"fetch-{number}")
        await asyncio.sleep(0.01)
        return number, job.attempt

    found = await asyncio.gather(*(job.step(f"fetch {number}", fetch, number) for number in range(3)))
    job.checkpoint({"fetched": len(found)})
    if job.attempt == 1:
        raise ConnectionError("once")
    return found


@sqljobs.handler(max_attempts=1)
def sleeps_in_the_server(side: str, seconds: float) -> int:
    """Statements that take longer than sqljobs waits for an answer to its own."""

    def sleep(session: Session) -> int:
        note(side, "sleep")
        name = session.connection().dialect.name
        session.execute(select(func.pg_sleep(seconds) if name == "postgresql" else func.sleep(seconds))).all()
        return 1

    sqljobs.current_job().finalize_with(sleep)
    slept: int = sqljobs.current_job().step("sleep", sleep, session=True)
    return slept


@sqljobs.handler(max_attempts=1)
def tells(until: Path, last: int) -> str:
    """Says how far it has come, far too often, until it may end."""
    job = sqljobs.current_job()
    job.progress(0, last, "begun \x1b[31m")
    while not until.exists():
        time.sleep(0.01)
        job.progress(1, last)
    begun = time.monotonic()
    for number in range(last + 1):
        job.progress(number, last, "counting")
    job.checkpoint(time.monotonic() - begun)
    return "told"
