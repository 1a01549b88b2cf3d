"""When a lapsed lease is taken back: only after the owner's own heartbeats were awaited, whoever is the quicker."""

from datetime import timedelta

from sqlalchemy import select, update

from sqljobs.schema.outcomes import Backoff
from sqljobs.schema.supervisors import Registration, register
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.reclaiming import Reclaimer
from tests.schema.playing import ALICE, put, row, set_off


def registered_alice(database: Database, heartbeat: float) -> None:
    register(database, Registration("1", "alice", "host", "boot", 1, 1, 4, ["t"], ALICE.ttl, heartbeat))


def let_lapse(database: Database, job_id: int) -> None:
    with database.engine.begin() as conn:
        expires = conn.execute(select(jobs.c.lease_expires).where(jobs.c.id == job_id)).scalar_one()
        earlier = {"lease_expires": expires - timedelta(minutes=10)}
        conn.execute(update(jobs).where(jobs.c.id == job_id).values(earlier))


def taken_at(reclaimer: Reclaimer, *moments: float) -> list[int]:
    """How many leases were taken at each of these moments of the reclaimer's clock."""
    return [len(reclaimer.run(moment, lambda _: Backoff(0.0, 0.0))) for moment in moments]


def test_a_quick_supervisor_waits_for_the_heartbeats_of_a_slow_owner(database: Database) -> None:
    registered_alice(database, heartbeat=10.0)
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(Reclaimer(database, "bob/2", heartbeat=0.5), 100.0, 101.5, 119.9, 120.0) == [0, 0, 0, 1]
    assert row(database, one.job_id).lease_owner is None


def test_a_slow_supervisor_waits_for_its_own(database: Database) -> None:
    registered_alice(database, heartbeat=0.5)
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(Reclaimer(database, "bob/2", heartbeat=10.0), 100.0, 119.9, 120.0) == [0, 0, 1]


def test_an_owner_that_is_not_known_is_given_our_own(database: Database) -> None:
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(Reclaimer(database, "bob/2", heartbeat=10.0), 100.0, 120.0) == [0, 1]
