"""The same calls for AsyncSession and AsyncConnection, each part of the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

from sqljobs.schema.callers import Caller
from sqljobs.schema.job_info import JobInfo
from sqljobs.schema.reason import Reason
from sqljobs.schema.specs import JobSpec
from sqljobs.worker_runtime import controls
from sqljobs.worker_runtime import enqueue as calls

T = TypeVar("T")
AsyncCaller = AsyncSession | AsyncConnection | async_scoped_session[Any]


async def enqueue(
    session: AsyncCaller, job: str | JobSpec, args: Mapping[str, Any] | None = None, /, **options: Any
) -> int:
    """See `sqljobs.enqueue`."""
    return await _run("enqueue", session, lambda caller: calls.enqueue(caller, job, args, **options))


async def enqueue_many(session: AsyncCaller, specs: Iterable[JobSpec], /) -> list[int]:
    """See `sqljobs.enqueue_many`."""
    return await _run("enqueue_many", session, lambda caller: calls.enqueue_many(caller, specs))


async def get_job(session: AsyncCaller, job_id: int, /) -> JobInfo:
    """See `sqljobs.get_job`."""
    return await _run("get_job", session, lambda caller: calls.get_job(caller, job_id))


async def explain(session: AsyncCaller, job_id: int, /) -> list[Reason]:
    """See `sqljobs.explain`."""
    return await _run("explain", session, lambda caller: calls.explain(caller, job_id))


async def cancel(session: AsyncCaller, /, *ids: int, now: bool = False) -> list[int]:
    """See `sqljobs.cancel`."""
    return await _run("cancel", session, lambda caller: calls.cancel(caller, *ids, now=now))


async def retry(session: AsyncCaller, /, *ids: int, dry_run: bool = False, from_scratch: bool = False) -> list[int]:
    """See `sqljobs.retry`."""
    return await _run(
        "retry", session, lambda caller: calls.retry(caller, *ids, dry_run=dry_run, from_scratch=from_scratch)
    )


async def skip(session: AsyncCaller, /, *ids: int, result: object = None, dry_run: bool = False) -> list[int]:
    """See `sqljobs.skip`."""
    return await _run("skip", session, lambda caller: calls.skip(caller, *ids, result=result, dry_run=dry_run))


async def hold(
    session: AsyncCaller,
    /,
    kind: str,
    name: str | int | None = None,
    *,
    reason: str | None = None,
    until: controls.Moment | None = None,
) -> None:
    """See `sqljobs.hold`."""
    await _run("hold", session, lambda caller: controls.hold(caller, kind, name, reason=reason, until=until))


async def release(session: AsyncCaller, /, kind: str, name: str | int | None = None) -> bool:
    """See `sqljobs.release`."""
    return await _run("release", session, lambda caller: controls.release(caller, kind, name))


async def set_limit(session: AsyncCaller, /, name: str, **options: Any) -> None:
    """See `sqljobs.set_limit`."""
    await _run("set_limit", session, lambda caller: controls.set_limit(caller, name, **options))


async def set_group(session: AsyncCaller, /, name: str, *, weight: int) -> None:
    """See `sqljobs.set_group`."""
    await _run("set_group", session, lambda caller: controls.set_group(caller, name, weight=weight))


async def _run(name: str, session: AsyncCaller, call: Callable[[Caller], T]) -> T:
    if not isinstance(session, (AsyncSession, AsyncConnection, async_scoped_session)):
        kind = type(session).__name__
        raise TypeError(f"sqljobs.aio.{name} needs an AsyncSession or AsyncConnection, not {kind}")
    target = session() if isinstance(session, async_scoped_session) else session
    return await target.run_sync(call)
