"""Handlers that the tests of `sqljobs.testing` run inline. Their types begin with `t.`, since the process is shared."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

import sqljobs
from sqljobs.testing import run_inline

QUICK = sqljobs.exponential(first=60, cap=3600)
ran: list[str] = []


@dataclass(frozen=True)
class Size:
    width: int
    height: int


@sqljobs.handler("t.resize")
def resize(path: Path, size: Size) -> dict[str, Any]:
    assert isinstance(path, Path)
    assert isinstance(size, Size)
    job = sqljobs.current_job()
    job.progress(1, 2, "half")
    job.checkpoint({"at": datetime(2026, 11, 30, tzinfo=UTC)})
    return {"path": path.with_suffix(".png"), "pixels": size.width * size.height, "sizes": (1, 2)}


@sqljobs.handler("t.add")
def add(n: int = 0) -> int:
    ran.append(f"add {n}")
    return n + sum(int(one.result) for one in sqljobs.current_job().upstream if one.type == "t.add")


@sqljobs.handler("t.add_async")
async def add_async(n: int) -> int:
    await asyncio.sleep(0)
    twice = await sqljobs.current_job().step("twice", _twice, n)
    assert sqljobs.current_job().attempt
    return int(twice)


async def _twice(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


@sqljobs.handler("t.flaky", backoff=QUICK, max_attempts=3)
def flaky(good_at: int = 2) -> dict[str, Any]:
    job = sqljobs.current_job()
    before = job.last_checkpoint
    job.checkpoint(job.attempt)
    first = job.step("first", lambda: job.attempt)
    if job.attempt < good_at:
        raise ConnectionError(f"attempt {job.attempt}")
    return {"before": before, "first": first}


@sqljobs.handler("t.strict", fail_on=ValueError)
def strict() -> None:
    raise ValueError("never again")


ENDINGS: dict[str, Any] = {
    "retry": lambda: sqljobs.Retry(after="10m"),
    "retry_backoff": sqljobs.Retry,
    "snooze": lambda: sqljobs.Snooze(after=90),
    "fail": lambda: sqljobs.Fail("no such customer"),
    "cancel": lambda: sqljobs.Cancel("not wanted"),
    "error": lambda: KeyError("x"),
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
}


@sqljobs.handler("t.ends", backoff=QUICK, max_attempts=2)
def ends(how: str) -> None:
    sqljobs.current_job().enqueue("t.add", {"n": 1})
    raise ENDINGS[how]()


@sqljobs.handler("t.bad_result")
def bad_result() -> object:
    return object()


@sqljobs.handler("t.pipeline")
def pipeline(parts: int) -> str:
    job = sqljobs.current_job()
    members = [job.spawn("t.add", {"n": n}, priority=parts - n) for n in range(parts)]
    job.spawn("t.add", {"n": 100}, after=members)
    job.enqueue("t.collect", after=[job.id])
    return "split"


@sqljobs.handler("t.collect")
def collect() -> list[Any]:
    (split,) = sqljobs.current_job().upstream
    return [split.result, *(one.result for one in split.children())]


@sqljobs.handler("t.circle")
def circle() -> None:
    job = sqljobs.current_job()
    job.enqueue("t.add", after=[sqljobs.JobSpec("t.add")])  # one that is not of this call


@sqljobs.handler("t.spender", uses={"t.usd": "0.5"})
def spender(taken: int = 1) -> str:
    job = sqljobs.current_job()
    left = job.spend("t.usd", "0.25")
    for _ in range(taken):
        job.take("t.calls")
    return str(left)


@sqljobs.handler("t.device", uses={"t.gpu": 2})
def device() -> dict[str, Any]:
    return dict(sqljobs.current_job().devices)


def _write(session: Session, name: str) -> str:
    sqljobs.set_limit(session, name, resource=1)
    return name


@sqljobs.handler("t.writer", max_attempts=2, backoff=QUICK)
def writer(fails: bool = False, at_end: bool = False) -> list[str]:
    job = sqljobs.current_job()
    written = [job.step("write", _write, f"t.by-{job.id}", session=True)]
    job.finalize_with(lambda session: None if at_end is False else _fail(session))
    if fails and job.attempt == 1:
        raise OSError("after the step")
    return written


def _fail(session: Session) -> None:
    _write(session, "t.in-vain")
    raise LookupError("at the end")


@sqljobs.handler("t.nested")
def nested() -> list[Any]:
    outer = sqljobs.current_job()
    inner = run_inline(ends.spec("error"))
    return [inner.cause, sqljobs.current_job() is outer]


@sqljobs.handler("t.asks")
def asks() -> dict[str, Any]:
    job = sqljobs.current_job()
    if job.stopping == "shutdown":
        raise TimeoutError("gave up")
    if job.stopping in ("memory", "lease_lost"):
        raise sqljobs.Stopping(job.stopping)
    upstream = [[one.id, one.type, one.state, one.result] for one in job.upstream]
    return {"stopping": job.stopping, "attempt": job.attempt, "last": job.last_checkpoint, "upstream": upstream}


@sqljobs.handler("t.too_late")
def too_late(verb: str) -> None:
    job = sqljobs.current_job()
    job.finalize_with(lambda _: getattr(job, verb)("t.add", {"a": 1, "b": 2}))


@sqljobs.handler("t.on_units", uses={"gpu": 2})
def on_units() -> list[str]:
    return list(sqljobs.current_job().devices["gpu"])
