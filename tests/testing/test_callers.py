"""Whose transactions `drain` and `enqueued` take part in, and whose they do not."""

from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.migrate import initialise
from sqljobs.schema.transactions import Database
from sqljobs.testing import drain, enqueued, run_inline
from tests.testing import handlers


def test_a_plain_session_and_a_connection_will_do(engine: Engine) -> None:
    with Session(engine) as plain:
        sqljobs.enqueue(plain, handlers.add.spec(1))
        assert [job.result for job in drain(plain)] == [1]
        plain.rollback()
        assert enqueued(plain) == []
    with engine.connect() as conn:
        sqljobs.enqueue(conn, handlers.add.spec(1))
        assert [job.result for job in drain(conn)] == [1]


def test_where_it_cannot_be_called(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def call_drain() -> None:
        with Session(engine) as session:
            drain(session)

    monkeypatch.setitem(handlers.ENDINGS, "error", call_drain)
    outcome = run_inline(handlers.ends.spec("error"))
    assert "drain is for tests" in (outcome.error or "")
    with pytest.raises(TypeError, match="drain needs a SQLAlchemy Session or Connection, not Engine"):
        drain(engine)  # type: ignore[arg-type]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        with pytest.raises(sqljobs.InvalidJob, match="AUTOCOMMIT"):
            drain(conn)
        conn.rollback()


@pytest.mark.parametrize("url", ["sqlite:///{}/jobs.db", "sqlite://"])
def test_an_engine_of_sqlalchemys_own_making(tmp_path: Path, url: str) -> None:
    """Whose driver begins no transaction before the first write, and would commit with our first savepoint."""
    engine = sqlalchemy.create_engine(url.format(tmp_path))
    initialise(Database.of(engine))
    with Session(engine) as session:
        assert drain(session) == []
        sqljobs.enqueue(session, handlers.flaky.spec())
        assert [job.state for job in drain(session, raise_errors=False)] == ["done"]
        session.rollback()
        assert enqueued(session) == []
        assert drain(session) == []
    engine.dispose()


def test_without_tables(tmp_path: Path) -> None:
    engine = sqljobs.create_engine(f"sqlite:///{tmp_path}/none.db")
    with Session(engine) as session:
        with pytest.raises(sqljobs.NotInitialised, match="run `sqljobs init`"):
            drain(session)
        with pytest.raises(sqljobs.NotInitialised):
            enqueued(session)
    engine.dispose()
