"""A server that takes everything and answers nothing: our own calls come back all the same, a user's may wait."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, text

from sqljobs.schema.engine import create_engine, create_own_engine
from sqljobs.schema.errors import DatabaseUnavailable
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.playing import end_settled, lease, put, row, set_off, states
from tests.schema.proxy import Proxy
from tests.schema.sessions import hooked
from tests.schema.test_transactions import bump, weights

pytestmark = pytest.mark.databases("postgresql", "mariadb", "mysql")


@contextmanager
def behind_proxy(database: Database, answer_seconds: float = 1.0) -> Iterator[tuple[Proxy, Database]]:
    with Proxy(database.engine.url) as proxy:
        engine = create_own_engine(proxy.url, answer_seconds=answer_seconds)
        try:
            yield proxy, Database.of(engine, busy_for=answer_seconds)
        finally:
            engine.dispose()


@pytest.mark.parametrize("step", ["begin", "lock", "commit"])
def test_our_calls_come_back(database: Database, step: str) -> None:
    """Nothing half-written, whatever the step at which the server fell silent; heard again, it goes on."""
    (one,) = set_off(database, put(database))
    with behind_proxy(database) as (proxy, own):
        assert own.transaction("x", lambda _: 7) == 7

        def fall_silent(at: str) -> None:
            proxy.silent |= at == f"finalize.{step}"

        with hooked(fall_silent), pytest.raises(DatabaseUnavailable, match="cannot be reached"):
            end_settled(own, one.fence)
        proxy.silent = False
        assert end_settled(own, one.fence)
    assert states(database, [one.job_id]) == ["done"]


def test_reads_come_back(database: Database) -> None:
    with behind_proxy(database) as (proxy, own):
        assert own.read("x", lambda _: 7) == 7
        proxy.silent = True
        with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
            own.read("x", lambda _: 7)


def test_answers_that_come_in_time_are_waited_for(database: Database) -> None:
    """The limit is for silence: several slow answers in one transaction are well."""
    job_id = put(database)
    slow = text("SELECT pg_sleep(0.6)" if database.dialect.name == "postgresql" else "SELECT SLEEP(0.6)")
    with behind_proxy(database) as (_, own):

        def work(tx: Transaction) -> None:
            bump(tx, job_id)
            for _ in range(3):
                tx.conn.execute(slow)

        own.transaction("x", work)
    assert weights(database, job_id) == [2]


def test_users_queries_may_take_long(database: Database) -> None:
    """`sqljobs.create_engine` is for users, too, whose queries may run for hours: no limit of ours is on it."""
    engine = create_engine(database.engine.url)
    driver = engine.raw_connection()
    if database.dialect.name == "postgresql":
        assert type(driver.driver_connection).__name__ == "Connection"
    else:
        assert getattr(driver.driver_connection, "_read_timeout", "renamed") is None
    driver.close()
    engine.dispose()


def test_who_has_more_to_do_gives_up_on_a_busy_database(database: Database) -> None:
    """A row that stays locked for long costs the loop one wait, not ten."""
    job_id = put(database)
    tries: list[str] = []

    def note(step: str) -> None:
        if step == "x.begin":
            tries.append(step)

    with database.connection() as other, hooked(note):
        other.execute(text(f"SELECT id FROM jobs WHERE id = {job_id} FOR UPDATE"))
        hurried = Database.of(database.engine, busy_for=0.5)
        with pytest.raises(DatabaseUnavailable, match="stays busy"):
            hurried.transaction("x", lambda tx: bump(tx, job_id), patience=1.0)
        other.rollback()
    assert len(tries) == 1
    assert row(database, job_id).weight == 1


@pytest.mark.databases("mariadb", "mysql")
def test_sessions_of_users_keep_their_settings(database: Database, engine: Engine) -> None:
    """What our transactions set for their session is not found in it by the user whose engine it is."""
    names = "@@innodb_lock_wait_timeout, @@wait_timeout"
    with engine.connect() as conn:
        session, *before = conn.execute(text(f"SELECT connection_id(), {names}")).one()
    lease(database, put(database))
    with engine.connect() as conn:
        assert conn.execute(text(f"SELECT connection_id(), {names}")).one() == (session, *before)
