"""A table of an author's own beside ours, and a running job to write into it with."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, insert, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from sqljobs.schema.claim import Lease
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import promote_due
from sqljobs.schema.transactions import Database
from sqljobs.worker_runtime.registry import JobType
from sqljobs.worker_runtime.running_job import RunningJob
from sqljobs.worker_runtime.write_end import write_end
from tests.schema.playing import DONE, NO_DELAY, put, row, set_off

TYPE = JobType("t", lambda: None, backoff=NO_DELAY)

effects = Table(
    "effects",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("word", String(50)),
    Column("number", Integer, server_default="0"),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)


@contextmanager
def table_of_effects(engine: Engine) -> Iterator[None]:
    """It exists, and is empty, until the end of the block."""
    effects.metadata.drop_all(engine)
    effects.metadata.create_all(engine)
    yield
    effects.metadata.drop_all(engine)


def words(engine: Engine) -> list[str]:
    """All that was written, in order."""
    with engine.connect() as conn:
        return list(conn.execute(select(effects.c.word).order_by(effects.c.id)).scalars())


def say(session: Session, word: str) -> str:
    """The effect of a step: one row."""
    session.execute(insert(effects).values(word=word))
    return word


def running(database: Database, job_id: int | None = None) -> tuple[Lease, RunningJob]:
    """A job whose handler runs, as the handler sees it."""
    if job_id is None:
        job_id = put(database)
    elif row(database, job_id).state == "scheduled":  # for its next attempt
        database.transaction("due", lambda tx: promote_due(tx, [job_id]))
    (one,) = set_off(database, job_id)
    return one, RunningJob(one, database)


def finish(database: Database, one: Lease, job: RunningJob, outcome: Outcome = DONE) -> bool:
    """Write the end as its child does."""
    return write_end(database, one, TYPE, outcome, job)


def fail(database: Database, one: Lease, job: RunningJob) -> None:
    """End this attempt as an error, so that there is another."""
    assert finish(database, one, job, Outcome(Cause.ERROR, error="no"))


def busy() -> OperationalError:
    """What SQLite says where another connection writes."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return OperationalError("INSERT", {}, error)
