"""A session that ends in the middle of a transaction, at each of its steps: all of it is written, or nothing."""

import math

import pytest
from sqlalchemy.exc import OperationalError

import sqljobs
from sqljobs.schema.claim import claim, settle_claim
from sqljobs.schema.engine import create_engine
from sqljobs.schema.errors import DatabaseUnavailable
from sqljobs.schema.jobs_read import read_states
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.audit import audit
from tests.schema.playing import ALICE, count, end_settled, no_options, put, set_off, states, tries
from tests.schema.sessions import Killer, hooked
from tests.schema.test_finalize import everything

pytestmark = pytest.mark.databases("postgresql", "mariadb", "mysql")

STEPS_OF_A_FINALIZE = (
    *("begin", "lock", "move_succeed", "attempt", "edges", "lock_dependents", "flip", "unmet"),
    *("move_unblock", "commit"),
)


def test_session_killed_at_each_step_of_a_finalize(database: Database) -> None:
    """A fresh connection is tried in any case, and at the COMMIT reading tells: written once, never half."""
    administrator = create_engine(database.engine.url, isolation_level="AUTOCOMMIT")
    for step in STEPS_OF_A_FINALIZE:
        (one,) = set_off(database, put(database))
        dependent = put(database, after=[one.job_id])
        killer = Killer(administrator, f"finalize.{step}")
        with hooked(killer.on_step):
            assert end_settled(database, one.fence)
        assert killer.killed
        assert states(database, [one.job_id, dependent]) == ["done", "ready"]
        assert len(tries(database, one.job_id)) == 1
    assert database.read("audit", audit) == []
    administrator.dispose()


def test_sessions_killed_again_and_again(database: Database) -> None:
    """Given up and said so, with nothing written; who looks for the database longer gets through later."""
    administrator = create_engine(database.engine.url, isolation_level="AUTOCOMMIT")
    (one,) = set_off(database, put(database))
    killer = Killer(administrator, "finalize.flip", times=math.inf)
    put(database, after=[one.job_id])
    before = everything(database)
    with hooked(killer.on_step), pytest.raises(DatabaseUnavailable, match="cannot be reached"):
        end_settled(database, one.fence)
    assert everything(database) == before
    assert end_settled(database, one.fence)
    administrator.dispose()


def test_session_killed_at_each_step_of_a_claim(database: Database) -> None:
    administrator = create_engine(database.engine.url, isolation_level="AUTOCOMMIT")
    for step in ("begin", "lock", "move_claim", "attempts", "commit"):
        ids = [put(database) for _ in range(3)]
        killer = Killer(administrator, f"claim.{step}")
        with hooked(killer.on_step):
            leases = database.transaction(
                "claim",
                lambda tx, ids=ids: claim(tx, ALICE, ids, no_options),  # type: ignore[misc]
                settle=lambda tx, ids=ids: settle_claim(tx, ALICE, ids),  # type: ignore[misc]
                reconnect_for=30.0,
            )
        assert killer.killed
        assert [one.job_id for one in leases] == ids
    assert database.read("audit", audit) == []
    administrator.dispose()


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "READ COMMITTED"])
def test_session_of_a_caller_killed_within_a_call(database: Database, level: str) -> None:
    """The caller hears what happened, and nothing of the call is left, on an AUTOCOMMIT connection neither."""
    administrator = create_engine(database.engine.url, isolation_level="AUTOCOMMIT")
    users = create_engine(database.engine.url, isolation_level=level)
    killer = Killer(administrator, "enqueue_many.edges")
    first = sqljobs.JobSpec("t")
    with users.connect() as conn, hooked(killer.on_step):
        with pytest.raises(OperationalError) as raised:
            sqljobs.enqueue_many(conn, [first, sqljobs.JobSpec("t", after=[first])])
        assert raised.value.connection_invalidated
    with users.connect() as conn:
        sqljobs.enqueue(conn, "t")
        conn.commit()
    database.engine.dispose()
    assert count(database) == 1
    users.dispose()
    administrator.dispose()


def test_pooled_session_of_a_users_engine_that_was_killed(database: Database) -> None:
    """It is noticed at the first thing that is sent, whatever that is, and another is opened."""
    job_id = put(database)
    administrator = create_engine(database.engine.url, isolation_level="AUTOCOMMIT")
    for look in (database.read, database.transaction):
        killer = Killer(administrator, "y.committed")
        runs: list[Transaction] = []
        with hooked(killer.on_step):
            database.transaction("y", runs.append)
        assert killer.killed
        assert len(runs) == 1  # what is committed is not run again
        assert look("x", lambda tx: read_states(tx, [job_id])) == {job_id: "ready"}
    administrator.dispose()
