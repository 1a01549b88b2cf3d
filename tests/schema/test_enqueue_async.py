"""The same calls for asyncio, with psycopg and aiosqlite: part of the caller's transaction, and nobody else's."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session

import sqljobs
from sqljobs import JobSpec, aio
from sqljobs.schema.transactions import Database
from tests.schema.playing import count, put, row, states

pytestmark = pytest.mark.databases("sqlite", "postgresql")


@asynccontextmanager
async def asynchronous(engine: Engine, **options: str) -> AsyncIterator[AsyncEngine]:
    """An asynchronous engine on the same database."""
    url = engine.url.set(drivername={"sqlite": "sqlite+aiosqlite"}.get(engine.dialect.name, engine.url.drivername))
    made = create_async_engine(url, **options)
    try:
        yield made
    finally:
        await made.dispose()


async def use_connection(conn: AsyncConnection) -> list[int]:
    first = await aio.enqueue(conn, "t", {"n": 1}, key="k", weight=2)
    assert await aio.enqueue(conn, "t", key="k") == first
    spec = JobSpec("t", after=[first])
    return [first, *await aio.enqueue_many(conn, [spec, JobSpec("t", after=[spec])])]


def test_connection(engine: Engine, database: Database) -> None:
    async def main() -> list[int]:
        async with asynchronous(engine) as made, made.connect() as conn:
            await use_connection(conn)
            await conn.rollback()
            assert count(database) == 0
            ids = await use_connection(conn)
            assert (await aio.get_job(conn, ids[0])).weight == 2
            assert [reason.code for reason in await aio.explain(conn, ids[0])] == ["no_supervisor"]
            await conn.commit()
            return ids

    ids = asyncio.run(main())
    assert states(database, ids) == ["ready", "blocked", "blocked"]


def test_session(engine: Engine, database: Database) -> None:
    async def main() -> int:
        async with asynchronous(engine) as made:
            async with AsyncSession(made) as session, session.begin():
                job_id = await aio.enqueue(session, JobSpec("t"))
                assert await aio.cancel(session, job_id) == [job_id]
                assert await aio.retry(session, job_id) == [job_id]
            scoped = async_scoped_session(async_sessionmaker(made), scopefunc=asyncio.current_task)
            await aio.enqueue(scoped, "t")
            await scoped.commit()
            await scoped.remove()
            return job_id

    assert row(database, asyncio.run(main())).state == "ready"
    assert count(database) == 2


def test_autocommit_is_atomic_per_call(engine: Engine, database: Database) -> None:
    async def main() -> None:
        async with asynchronous(engine, isolation_level="AUTOCOMMIT") as made, made.connect() as conn:
            await aio.enqueue(conn, "t")
            assert count(database) == 1  # seen by others at once
            with pytest.raises(sqljobs.DuplicateKey):
                await aio.enqueue_many(conn, [JobSpec("t", key="k"), JobSpec("t", key="k", on_conflict="raise")])
            await conn.rollback()

    asyncio.run(main())
    assert count(database) == 1


def test_errors(engine: Engine, database: Database) -> None:
    taken = put(database, key="k")

    async def main() -> None:
        async with asynchronous(engine) as made, AsyncSession(made) as session, session.begin():
            with pytest.raises(sqljobs.InvalidJob):
                await aio.enqueue(session, "t", weight=0)
            with pytest.raises(sqljobs.UnknownJob):
                await aio.enqueue(session, "t", after=[taken + 1000])
            with pytest.raises(sqljobs.DuplicateKey):
                await aio.enqueue(session, "t", key="k", on_conflict="raise")
            await aio.enqueue(session, "t")

    asyncio.run(main())
    assert count(database) == 2


def test_wrong_first_argument_is_named(engine: Engine) -> None:
    calls: list[tuple[str, Callable[[object], Awaitable[object]]]] = [
        ("enqueue", lambda caller: aio.enqueue(caller, "t")),  # type: ignore[arg-type]  # the point of the test
        ("enqueue_many", lambda caller: aio.enqueue_many(caller, [])),  # type: ignore[arg-type]  # the same
        ("get_job", lambda caller: aio.get_job(caller, 1)),  # type: ignore[arg-type]  # the same
    ]

    async def main() -> None:
        async with asynchronous(engine) as made:
            for name, call in calls:
                for caller in (made, engine, Session(engine), async_sessionmaker(made)):
                    kind = type(caller).__name__
                    words = f"sqljobs.aio.{name} needs an AsyncSession or AsyncConnection, not {kind}"
                    with pytest.raises(TypeError, match=words):
                        await call(caller)

    asyncio.run(main())
