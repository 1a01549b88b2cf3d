"""The caller's transaction: whatever it is, a job exists if and only if it commits, and nothing else of it changes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Connection, Engine, Integer, MetaData, event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

import sqljobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import count, lease, put, row, run, states

LEVELS = ("plain", "AUTOCOMMIT", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


class Theirs(DeclarativeBase):
    """A user's models."""

    metadata = MetaData()


class Order(Theirs):
    """A user's table."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)


@pytest.fixture(params=LEVELS)
def users_engine(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Engine]:
    """An engine of SQLAlchemy's own, with the user's isolation level as its default."""
    level = request.param
    if engine.dialect.name == "sqlite" and level in ("READ COMMITTED", "REPEATABLE READ"):
        level = "READ UNCOMMITTED"
    options = {} if level == "plain" else {"isolation_level": level}
    users = sqlalchemy.create_engine(engine.url, **options)
    yield users
    users.dispose()


def is_autocommit(engine: Engine) -> bool:
    return str(engine.get_execution_options().get("isolation_level", "")) == "AUTOCOMMIT" or (
        getattr(engine.dialect, "_on_connect_isolation_level", None) == "AUTOCOMMIT"
    )


def test_connection_of_any_engine(users_engine: Engine, database: Database) -> None:
    with users_engine.connect() as conn:
        first = sqljobs.enqueue(conn, "t", {"n": 1}, key="k")
        second = sqljobs.enqueue(conn, "t", after=[first])
        assert sqljobs.enqueue(conn, "t", key="k") == first
        conn.commit()
    assert states(database, [first, second]) == ["ready", "blocked"]
    assert row(database, first).args == {"n": 1}


def test_session_of_any_engine(users_engine: Engine, database: Database) -> None:
    with Session(users_engine) as session, session.begin():
        ids = sqljobs.enqueue_many(session, [sqljobs.JobSpec("t"), sqljobs.JobSpec("u")])
        assert sqljobs.get_job(session, ids[1]).type == "u"
    assert states(database, ids) == ["ready", "ready"]


def test_rollback_leaves_nothing(users_engine: Engine, database: Database) -> None:
    first = sqljobs.JobSpec("t", key="k")
    with users_engine.connect() as conn:
        sqljobs.enqueue_many(conn, [first, sqljobs.JobSpec("t", after=[first])])
        conn.rollback()
    if is_autocommit(users_engine):
        assert count(database) == 2  # each call is a transaction of its own there
    else:
        assert count(database) == 0
        with database.engine.connect() as conn:
            assert conn.execute(text("SELECT count(*) FROM job_deps")).scalar_one() == 0


@pytest.mark.parametrize("users_engine", ["AUTOCOMMIT"], indirect=True)
def test_error_on_autocommit_leaves_nothing(users_engine: Engine, database: Database) -> None:
    statements: list[str] = []

    def fail_at_edges(_conn: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)
        if statement.startswith("INSERT INTO job_deps"):
            raise RuntimeError("the connection broke here")

    first = sqljobs.JobSpec("t")
    event.listen(users_engine, "before_cursor_execute", fail_at_edges)
    with users_engine.connect() as conn, pytest.raises(RuntimeError):
        sqljobs.enqueue_many(conn, [first, sqljobs.JobSpec("t", after=[first])])
    event.remove(users_engine, "before_cursor_execute", fail_at_edges)
    assert any(statement.startswith("INSERT INTO jobs") for statement in statements)
    assert count(database) == 0
    with users_engine.connect() as conn:
        assert sqljobs.enqueue(conn, "t") > 0
    assert count(database) == 1


@pytest.mark.parametrize("users_engine", ["AUTOCOMMIT"], indirect=True)
def test_begin_by_hand_on_autocommit_is_the_callers_transaction(users_engine: Engine, database: Database) -> None:
    with users_engine.connect() as conn:
        conn.exec_driver_sql("BEGIN")
        sqljobs.enqueue(conn, "t")
        sqljobs.enqueue(conn, "t")
        conn.exec_driver_sql("ROLLBACK")
        assert count(database) == 0
        sqljobs.enqueue(conn, "t")
    assert count(database) == 1


def test_engine_with_the_begin_event_that_sqlalchemy_recommends(engine: Engine) -> None:
    users = sqlalchemy.create_engine(engine.url)
    if engine.dialect.name == "sqlite":
        # From SQLAlchemy's page on SQLite: the driver's own transactions are switched off.
        event.listen(users, "connect", lambda driver, _record: setattr(driver, "isolation_level", None))
        event.listen(users, "begin", lambda conn: conn.exec_driver_sql("BEGIN"))
    database = Database.of(users)
    with users.connect() as conn:
        sqljobs.enqueue(conn, "t")
        conn.rollback()
        first = sqljobs.enqueue(conn, "t")
        conn.commit()
    assert count(database) == 1
    run(database, first)
    second = put(database, after=[first])
    assert [one.job_id for one in lease(database, second)] == [second]
    users.dispose()


def test_our_own_transactions_on_any_engine(users_engine: Engine) -> None:
    database = Database.of(users_engine)
    with users_engine.begin() as conn:
        first = sqljobs.enqueue(conn, "t")
        second = sqljobs.enqueue(conn, "t", after=[first])
    assert lease(database, second) == []
    run(database, first)
    run(database, second)
    assert states(database, [first, second]) == ["done", "done"]
    with users_engine.connect() as conn:
        level = conn.get_isolation_level()
        fresh = sqlalchemy.create_engine(users_engine.url)
        if users_engine.dialect.name != "sqlite" and not is_autocommit(users_engine):
            with fresh.connect() as other:
                expected = getattr(users_engine.dialect, "_on_connect_isolation_level", None)
                assert level == (expected or other.get_isolation_level())
        fresh.dispose()


def test_pending_objects_of_the_caller_are_not_flushed(engine: Engine) -> None:
    Theirs.metadata.create_all(engine)
    try:
        with Session(engine) as session, session.begin():
            order = Order(id=7)
            session.add(order)
            job_id = sqljobs.enqueue(session, "t")
            sqljobs.get_job(session, job_id)
            sqljobs.cancel(session, job_id)
            assert order in session.new
            assert session.connection().execute(text("SELECT count(*) FROM orders")).scalar_one() == 0
        with engine.connect() as conn:
            assert conn.execute(text("SELECT id FROM orders")).scalars().all() == [7]
    finally:
        Theirs.metadata.drop_all(engine)


def test_savepoint_of_the_caller(engine: Engine, database: Database) -> None:
    with Session(engine) as session, session.begin():
        kept = sqljobs.enqueue(session, "t")
        with session.begin_nested() as nested:
            sqljobs.enqueue(session, "t")
            nested.rollback()
        with session.begin_nested():
            also = sqljobs.enqueue(session, "t", after=[kept])
    assert states(database, [kept, also]) == ["ready", "blocked"]
    assert count(database) == 2


def test_scoped_session_and_session_with_several_binds(engine: Engine, database: Database) -> None:
    elsewhere = sqlalchemy.create_engine("sqlite://")
    scoped = scoped_session(sessionmaker(engine))
    sqljobs.enqueue(scoped, "t")
    scoped.commit()
    scoped.remove()
    with Session(binds={Order: elsewhere, sqljobs.Job: engine}) as session, session.begin():
        sqljobs.enqueue(session, "t")
    assert count(database) == 2
    elsewhere.dispose()


def test_errors_leave_the_transaction_usable(engine: Engine, database: Database) -> None:
    taken = put(database, key="k")
    wrong: list[tuple[type[Exception], Callable[[Connection], object]]] = [
        (sqljobs.InvalidJob, lambda conn: sqljobs.enqueue(conn, "t", weight=0)),
        (sqljobs.UnknownJob, lambda conn: sqljobs.enqueue(conn, "t", after=[taken, 10**9])),
        (sqljobs.DuplicateKey, lambda conn: sqljobs.enqueue(conn, "t", key="k", on_conflict="raise")),
        (TypeError, lambda conn: sqljobs.enqueue(conn, "t", wieght=2)),
        (sqljobs.UnknownJob, lambda conn: sqljobs.cancel(conn, taken, 10**9)),
        (sqljobs.Refused, lambda conn: sqljobs.retry(conn, taken)),
    ]
    with engine.begin() as conn:
        sqljobs.enqueue(conn, "t", {"n": "before"})
        for error, call in wrong:
            with pytest.raises(error):
                call(conn)
        sqljobs.enqueue(conn, "t", {"n": "after"})
    assert count(database) == 3


def test_wrong_first_argument_is_named(engine: Engine) -> None:
    asynchronous = create_async_engine("sqlite+aiosqlite://")
    for caller, words in (
        (engine, "enqueue needs a SQLAlchemy Session or Connection, not Engine: open one first"),
        (sessionmaker(engine), "not sessionmaker: hand over"),
        (AsyncSession(asynchronous), "not AsyncSession: for async code call sqljobs.aio.enqueue"),
        (asynchronous, "not AsyncEngine: for async code call sqljobs.aio.enqueue"),
        ("sqlite://", "not str: hand over"),
        (None, "not NoneType: hand over"),
    ):
        with pytest.raises(TypeError, match=words):
            sqljobs.enqueue(caller, "t")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError, match="get_job needs a SQLAlchemy Session or Connection, not Engine"):
        sqljobs.get_job(engine, 1)  # type: ignore[arg-type]  # the same


def test_missing_tables(empty_engine: Engine) -> None:
    for call in (
        lambda conn: sqljobs.enqueue(conn, "t"),
        lambda conn: sqljobs.enqueue(conn, "t", after=[1], key="k"),
        lambda conn: sqljobs.get_job(conn, 1),
        lambda conn: sqljobs.cancel(conn, 1),
    ):
        with empty_engine.connect() as conn, pytest.raises(sqljobs.NotInitialised, match="run `sqljobs init`"):
            call(conn)
