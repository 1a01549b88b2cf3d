"""Our own transactions in trouble that is real: deadlocks, locks that stay, killed sessions, cancelled statements."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from sqljobs.schema import transactions
from sqljobs.schema.engine import create_engine
from sqljobs.schema.errors import DatabaseUnavailable, NotInitialised
from sqljobs.schema.steps import set_hook
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.actors import Stage
from tests.schema.audit import audit
from tests.schema.playing import end_settled, lease, put, row, set_off, states, tries
from tests.schema.proxy import Proxy
from tests.schema.test_finalize import everything
from tests.waiting import wait_until

servers = pytest.mark.databases("postgresql", "mariadb", "mysql")


def bump(tx: Transaction, job_id: int, step: str = "bump") -> None:
    """One more on the job's weight, which nobody else writes."""
    tx.execute(step, update(jobs).where(jobs.c.id == job_id).values(weight=jobs.c.weight + 1))


def weights(database: Database, *ids: int) -> list[int]:
    return [row(database, job_id).weight for job_id in ids]


@contextmanager
def hooked(hook: Callable[[str], None]) -> Iterator[None]:
    former = set_hook(hook)
    try:
        yield
    finally:
        set_hook(former)


SESSIONS_POSTGRESQL = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
SESSIONS_MYSQL = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
SLEEPING_POSTGRESQL = f"{SESSIONS_POSTGRESQL} AND query LIKE '%pg_sleep%' AND state = 'active'"
SLEEPING_MYSQL = f"{SESSIONS_MYSQL} AND info LIKE '%SLEEP(30)%'"


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
    monkeypatch.setattr(transactions, "RETRIES", 2)
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


STEPS_OF_A_FINALIZE = (
    *("begin", "lock", "move_succeed", "attempt", "edges", "lock_dependents", "flip", "unmet", "dependents"),
    *("move_unblock", "commit"),
)


@servers
@pytest.mark.parametrize("reconnect_for", [30.0, 0.0])
def test_session_killed_at_each_step_of_a_finalize(database: Database, reconnect_for: float) -> None:
    """Written once, or not at all and said so: never half. At the COMMIT reading tells, whoever waits or not."""
    administrator = create_engine(database.engine.url, isolation_level="AUTOCOMMIT")
    for step in STEPS_OF_A_FINALIZE:
        (one,) = set_off(database, put(database))
        dependent = put(database, after=[one.job_id])
        before = everything(database)
        killer = Killer(administrator, f"finalize.{step}")
        with hooked(killer.on_step):
            if reconnect_for or step == "commit":
                assert end_settled(database, one.fence, reconnect_for=reconnect_for)
            else:
                with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
                    end_settled(database, one.fence)
                assert everything(database) == before
                assert end_settled(database, one.fence)
        assert killer.killed
        assert states(database, [one.job_id, dependent]) == ["done", "ready"]
        assert len(tries(database, one.job_id)) == 1
    assert database.read("audit", audit) == []
    administrator.dispose()


class Killer:
    """Kills all sessions in the database when one of our transactions is about to take `step`, once."""

    def __init__(self, administrator: Engine, step: str) -> None:
        self._administrator = administrator
        self._step = step
        self.killed = False

    def on_step(self, step: str) -> None:
        """For the hook of steps."""
        if step != self._step or self.killed:
            return
        self.killed = True
        postgresql = self._administrator.dialect.name == "postgresql"
        with self._administrator.connect() as conn:
            for session in conn.execute(text(SESSIONS_POSTGRESQL if postgresql else SESSIONS_MYSQL)).scalars().all():
                conn.execute(text(f"SELECT pg_terminate_backend({session})" if postgresql else f"KILL {session}"))


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


def test_long_outage(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server stays away for hours: tried again and again, at most once a second on average, and then given up."""
    clock = Clock()
    monkeypatch.setattr(transactions, "time", clock)
    url = f"sqlite:///{tmp_path}" if server.kind == "sqlite" else f"{server.kind}://x@127.0.0.1:1/x"
    engine = create_engine(url)
    database = Database.of(engine)
    with pytest.raises(DatabaseUnavailable, match="the database cannot be reached: ") as raised:
        database.transaction("x", lambda _: None, reconnect_for=1000.0)
    assert "\n" not in str(raised.value)
    assert 1000 <= clock.now < 1002
    assert len(clock.naps) > 1500
    assert max(clock.naps) <= 1.0
    with pytest.raises(DatabaseUnavailable):
        database.read("x", lambda _: None)
    engine.dispose()


@servers
def test_deadlock_after_a_long_outage_is_still_run_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "time", Clock())
    job_id = put(database)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        bump(tx, job_id)
        if len(runs) <= 3:
            with database.connection() as other:
                other.execute(database.dialect.lock(select(jobs.c.id).where(jobs.c.id == holder))).all()
                tx.conn.execute(text(f"SELECT id FROM jobs WHERE id = {holder} FOR UPDATE NOWAIT"))

    holder = put(database)
    with Proxy(database.engine.url) as proxy:
        engine = create_engine(proxy.url)
        proxy.refuse = 3 * transactions.RETRIES
        Database.of(engine).transaction("x", work, reconnect_for=10_000.0)
        engine.dispose()
    assert weights(database, job_id) == [2]
