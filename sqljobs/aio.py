"""The same calls for AsyncSession and AsyncConnection, each part of the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

from sqljobs.schema.callers import Caller
from sqljobs.schema.job_info import JobInfo
from sqljobs.schema.specs import JobSpec
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


async def cancel(session: AsyncCaller, /, *ids: int, now: bool = False) -> list[int]:
    """See `sqljobs.cancel`."""
    return await _run("cancel", session, lambda caller: calls.cancel(caller, *ids, now=now))


async def retry(session: AsyncCaller, /, *ids: int, dry_run: bool = False) -> list[int]:
    """See `sqljobs.retry`."""
    return await _run("retry", session, lambda caller: calls.retry(caller, *ids, dry_run=dry_run))


async def skip(session: AsyncCaller, /, *ids: int, result: object = None, dry_run: bool = False) -> list[int]:
    """See `sqljobs.skip`."""
    return await _run("skip", session, lambda caller: calls.skip(caller, *ids, result=result, dry_run=dry_run))


async def _run(name: str, session: AsyncCaller, call: Callable[[Caller], T]) -> T:
    if not isinstance(session, (AsyncSession, AsyncConnection, async_scoped_session)):
        kind = type(session).__name__
        raise TypeError(f"sqljobs.aio.{name} needs an AsyncSession or AsyncConnection, not {kind}")
    target = session() if isinstance(session, async_scoped_session) else session
    return await target.run_sync(call)
