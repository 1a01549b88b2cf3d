"""Our own transactions in trouble that is real: deadlocks, locks that stay, cancelled statements, bad data."""

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from sqljobs.schema import failures
from sqljobs.schema.engine import create_engine
from sqljobs.schema.errors import DatabaseUnavailable, NotInitialised
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.actors import Stage
from tests.schema.playing import lease, put, row
from tests.schema.sessions import SLEEPING_MYSQL, SLEEPING_POSTGRESQL
from tests.waiting import wait_until

servers = pytest.mark.databases("postgresql", "mariadb", "mysql")


def bump(tx: Transaction, job_id: int, step: str = "bump") -> None:
    """One more on the job's weight, which nobody else writes."""
    tx.execute(step, update(jobs).where(jobs.c.id == job_id).values(weight=jobs.c.weight + 1))


def weights(database: Database, *ids: int) -> list[int]:
    return [row(database, job_id).weight for job_id in ids]


@servers
def test_deadlock_is_run_again(database: Database, stage: Stage) -> None:
    a, b = put(database), put(database)
    runs = []

    def work(tx: Transaction, first: int, second: int) -> None:
        runs.append(first)
        bump(tx, first, "first")
        bump(tx, second, "second")

    one = stage.actor(lambda: database.transaction("x", lambda tx: work(tx, a, b), patience=20))
    two = stage.actor(lambda: database.transaction("x", lambda tx: work(tx, b, a), patience=20))
    one.until("x.second")
    two.until("x.second")
    one.go()
    two.go()
    one.finish()
    two.finish()
    assert len(runs) == 3
    assert weights(database, a, b) == [3, 3]


@servers
def test_lock_that_stays_too_long_is_run_again_from_the_start(database: Database, stage: Stage) -> None:
    """After 1205 the transaction of MySQL and MariaDB is still open, with what it wrote before."""
    held, other = put(database), put(database)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        bump(tx, other)
        runs.append(1)
        bump(tx, held, "held")

    waiting = stage.actor(lambda: database.transaction("x", work, patience=1))
    with database.connection() as conn:
        conn.execute(database.dialect.lock(select(jobs.c.id).where(jobs.c.id == held))).all()
        waiting.until("x.held")
        waiting.until("x.bump")  # of the second run: the first one has given up waiting
        assert weights(database, other) == [1]
        conn.rollback()
    waiting.finish()
    assert len(runs) >= 2
    assert weights(database, held, other) == [2, 2]


def test_database_that_stays_busy(database: Database, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "RETRIES", 2)
    held, other = put(database), put(database)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        bump(tx, other)
        bump(tx, held)

    holder = stage.actor(lambda: database.transaction("holder", lambda tx: bump(tx, held)))
    holder.until("holder.commit")
    with pytest.raises(DatabaseUnavailable, match="the database stays busy: ") as raised:
        database.transaction("x", work, patience=0.05)
    assert "\n" not in str(raised.value)
    assert len(runs) == (0 if database.dialect.name == "sqlite" else 3)
    holder.finish()
    assert weights(database, held, other) == [2, 1]
    database.transaction("x", work, patience=0.05)


@pytest.mark.databases("sqlite")
def test_busy_file_is_tried_again(database: Database, stage: Stage) -> None:
    job_id = put(database)
    holder = stage.actor(lambda: database.transaction("holder", lambda tx: bump(tx, job_id)))
    waiting = stage.actor(lambda: database.transaction("x", lambda tx: bump(tx, job_id), patience=0.01))
    holder.until("holder.commit")
    waiting.until("x.begin")
    waiting.until("x.begin")  # again: the first try met the lock
    holder.finish()
    waiting.finish()
    assert weights(database, job_id) == [3]


@servers
@pytest.mark.parametrize("retried", [True, False])
def test_errors_of_the_server_by_their_kind(database: Database, retried: bool) -> None:
    """Serialization failures and cancelled statements are tried again; a fault in the data is not."""
    job_id = put(database)
    raising = {
        True: "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$",
        False: "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '22023'; END $$",
    }
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        bump(tx, job_id)
        if len(runs) > 1:
            return
        if database.dialect.name == "postgresql":
            tx.conn.execute(text(raising[retried]))
        elif not retried:
            tx.conn.execute(text("SELECT * FROM jobs WHERE id = (SELECT 1 UNION SELECT 2)"))
        else:
            with database.connection() as other:
                other.execute(database.dialect.lock(select(jobs.c.id).where(jobs.c.id == holder))).all()
                tx.conn.execute(text(f"SELECT id FROM jobs WHERE id = {holder} FOR UPDATE NOWAIT"))

    holder = put(database)
    if retried:
        database.transaction("x", work)
    else:
        with pytest.raises(DBAPIError):
            database.transaction("x", work)
    assert len(runs) == (2 if retried else 1)
    assert weights(database, job_id) == [2 if retried else 1]


@servers
def test_cancelled_statement_is_run_again(database: Database, stage: Stage) -> None:
    """As `pg_cancel_backend`, `KILL QUERY` and a server's own time limit for statements do it."""
    postgresql = database.dialect.name == "postgresql"
    job_id = put(database)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        if len(runs) == 1:
            tx.conn.execute(text("SELECT pg_sleep(30)" if postgresql else "SELECT SLEEP(30) FROM jobs FOR UPDATE"))
        bump(tx, job_id)

    actor = stage.actor(lambda: database.transaction("x", work))
    administrator = create_engine(database.engine.url, isolation_level="AUTOCOMMIT")
    with administrator.connect() as conn:
        find = text(SLEEPING_POSTGRESQL if postgresql else SLEEPING_MYSQL)
        actor.go()
        session = wait_until(lambda: conn.execute(find).scalar(), what="the statement to be under way")
        conn.execute(text(f"SELECT pg_cancel_backend({session})" if postgresql else f"KILL QUERY {session}"))
    actor.finish()
    administrator.dispose()
    assert len(runs) == 2
    assert weights(database, job_id) == [2]


def test_fault_in_the_data_is_not_hidden(database: Database) -> None:
    job_id = put(database)

    def work(tx: Transaction) -> None:
        bump(tx, job_id)
        tx.execute("broken", update(jobs).values(state="leased"))

    with pytest.raises((IntegrityError, DBAPIError)):
        database.transaction("x", work)
    assert weights(database, job_id) == [1]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_whatever_work_raises_rolls_back(database: Database, error: type[BaseException]) -> None:
    job_id = put(database)

    def work(tx: Transaction) -> None:
        bump(tx, job_id)
        raise error

    with pytest.raises(error):
        database.transaction("x", work)
    assert weights(database, job_id) == [1]
    database.transaction("x", lambda tx: bump(tx, job_id))


def test_transaction_that_shall_not_be_kept(database: Database) -> None:
    job_id = put(database)
    assert database.transaction("x", lambda tx: bump(tx, job_id) or 7, keep=False) == 7  # type: ignore[func-returns-value]
    assert weights(database, job_id) == [1]


def test_missing_tables(empty_engine: Engine) -> None:
    database = Database.of(empty_engine)
    with pytest.raises(NotInitialised, match="run `sqljobs init`"):
        lease(database, 1)
    with pytest.raises(NotInitialised, match="run `sqljobs init`"):
        database.read("x", lambda tx: tx.execute("read", select(jobs.c.id)).all())
