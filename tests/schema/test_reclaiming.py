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


def taken_at(database: Database, heartbeat: float, *looks: float | tuple[float, float]) -> list[int]:
    """How many leases each look takes. A look is the moment when it is, or those when it begins and ends."""
    clock = iter([moment for look in looks for moment in (look if isinstance(look, tuple) else (look, look))])
    reclaimer = Reclaimer(database, "bob/2", heartbeat, clock=lambda: next(clock))
    return [len(reclaimer.run(lambda _: Backoff(0.0, 0.0))) for _ in looks]


def test_a_quick_supervisor_waits_for_the_heartbeats_of_a_slow_owner(database: Database) -> None:
    registered_alice(database, heartbeat=10.0)
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(database, 0.5, 100.0, 101.5, 110.0, 119.9, 120.0) == [0, 0, 0, 0, 1]
    assert row(database, one.job_id).lease_owner is None


def test_a_slow_supervisor_waits_for_its_own(database: Database) -> None:
    registered_alice(database, heartbeat=0.5)
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(database, 10.0, 100.0, 110.0, 119.9, 120.0) == [0, 0, 0, 1]


def test_an_owner_that_is_not_known_is_given_our_own(database: Database) -> None:
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(database, 10.0, 100.0, 110.0, 120.0) == [0, 0, 1]


def test_a_look_that_was_interrupted_proves_nothing_of_the_time_before_it_ended(database: Database) -> None:
    """Of a supervisor that was stopped between its look at the clock and the one at the leases."""
    registered_alice(database, heartbeat=10.0)
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(database, 10.0, (100.0, 200.0), 201.0, 210.0, 219.9, 220.0) == [0, 0, 0, 0, 1]


def test_time_in_which_nobody_looked_does_not_count(database: Database) -> None:
    """Of a host that was suspended: the owner was, too."""
    registered_alice(database, heartbeat=10.0)
    (one,) = set_off(database, put(database))
    let_lapse(database, one.job_id)
    assert taken_at(database, 10.0, 100.0, 500.0, 509.9, 510.0) == [0, 0, 0, 1]
