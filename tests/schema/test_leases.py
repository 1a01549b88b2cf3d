"""Renewing, lapsing, taking back, falling due; and that no caller's open transaction stands in the way of any of it."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine, select, update

import sqljobs
from sqljobs.schema.claim import Claimer
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.leases import Renewal, held_by, lapsed, renew
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import due, in_flight, promote_due
from sqljobs.schema.supervisors import (
    PublishedUsage,
    Registration,
    mark_gone,
    publish_usage,
    read_supervisors,
    read_usage,
    register,
)
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.schema.playing import ALICE, BOB, end, end_settled, lease, put, row, run, set_off, states, tries
from tests.schema.test_edges import settle_all

servers = pytest.mark.databases("postgresql", "mariadb", "mysql")


def renew_all(database: Database, held: dict[int, int], claimer: Claimer = ALICE) -> Renewal:
    return database.transaction("renew", lambda tx: renew(tx, claimer, held))


def let_lapse(database: Database, *ids: int) -> None:
    """As if the leases had been taken two minutes earlier."""
    with database.engine.begin() as conn:
        for job_id in ids:
            job = conn.execute(select(jobs).where(jobs.c.id == job_id)).one()
            earlier = {name: getattr(job, name) - timedelta(minutes=2) for name in ("lease_expires", "heartbeat_at")}
            conn.execute(update(jobs).where(jobs.c.id == job_id).values(**earlier))


def test_renewal_extends_what_is_held(database: Database) -> None:
    ids = [put(database) for _ in range(3)]
    set_off(database, *ids[:2])
    lease(database, ids[2])
    let_lapse(database, *ids)
    renewal = renew_all(database, dict.fromkeys(ids, 1))
    assert renewal == Renewal(renewed=frozenset(ids))
    for job_id in ids:
        job = row(database, job_id)
        assert job.lease_expires - job.heartbeat_at == timedelta(seconds=ALICE.ttl)
        assert datetime.now(UTC) - job.heartbeat_at < timedelta(minutes=1)
    assert renew_all(database, {}) == Renewal()


def test_renewal_says_what_has_become_of_the_others(database: Database) -> None:
    ended, taken, again, cancelled, now, gone = (put(database) for _ in range(6))
    leases = set_off(database, ended, taken, again, cancelled, now)
    end(database, leases[0].fence)
    for one in leases[1:3]:
        let_lapse(database, one.job_id)
        end(database, one.fence, Outcome(Cause.LOST), if_lapsed=True)
        database.transaction("due", lambda tx, one=one: promote_due(tx, [one.job_id]))  # type: ignore[misc]
    lease(database, taken, claimer=BOB)
    lease(database, again)  # the same owner, another attempt
    with database.engine.begin() as conn:
        sqljobs.cancel(conn, cancelled)
        sqljobs.cancel(conn, now, now=True)
    before = [row(database, job_id) for job_id in (taken, again)]
    renewal = renew_all(database, dict.fromkeys([ended, taken, again, cancelled, now, gone + 10**6], 1))
    assert renewal.ended == {ended}
    assert renewal.lost == {taken, again, gone + 10**6}
    assert renewal.cancelled == {cancelled, now}
    assert renewal.cancelled_now == {now}
    assert renewal.renewed == {cancelled, now}
    assert [row(database, job_id) for job_id in (taken, again)] == before


@servers
def test_renewal_waits_for_no_row(database: Database, stage: Stage) -> None:
    """A row that its own child's finalize holds is neither renewed nor lost."""
    one, two = set_off(database, put(database), put(database))
    finalizer = stage.actor(lambda: end_settled(database, one.fence))
    finalizer.until("finalize.commit")
    held = {one.job_id: 1, two.job_id: 1}
    assert renew_all(database, held) == Renewal(renewed=frozenset({two.job_id}))
    assert finalizer.finish()
    assert renew_all(database, held) == Renewal(renewed=frozenset({two.job_id}), ended=frozenset({one.job_id}))


@servers
def test_end_that_commits_between_the_two_looks_of_a_renewal(database: Database, stage: Stage) -> None:
    (one,) = set_off(database, put(database))
    finalizer = stage.actor(lambda: end_settled(database, one.fence))
    finalizer.until("finalize.commit")
    renewer = stage.actor(lambda: renew_all(database, {one.job_id: 1}))
    renewer.until("renew.look")
    assert finalizer.finish()
    assert renewer.finish() == Renewal(ended=frozenset({one.job_id}))


def test_lapsed_are_those_of_others_oldest_first(database: Database) -> None:
    ids = [put(database) for _ in range(4)]
    set_off(database, *ids[:2], claimer=BOB)
    lease(database, ids[2], claimer=BOB)
    set_off(database, ids[3])
    let_lapse(database, ids[2])
    let_lapse(database, ids[0], ids[2], ids[3])
    found = database.read("lapsed", lambda tx: lapsed(tx, not_owner=ALICE.owner))
    assert [(one.fence.job_id, one.fence.owner, one.type) for one in found] == [
        (ids[2], BOB.owner, "t"),
        (ids[0], BOB.owner, "t"),
    ]
    assert found[0].heartbeat_at == row(database, ids[2]).heartbeat_at
    held = database.read("held", lambda tx: held_by(tx, BOB.owner))
    assert held == {job_id: one for job_id in ids[:3] for one in [_fence(database, job_id)]}
    assert sorted(one.owner for one in database.read("flying", in_flight)) == [ALICE.owner, *[BOB.owner] * 3]


def _fence(database: Database, job_id: int) -> object:
    job = row(database, job_id)
    return (job.id, job.attempt, job.lease_owner)


def test_reclaim_and_the_former_owner(database: Database) -> None:
    (former,) = set_off(database, put(database))
    let_lapse(database, former.job_id)
    assert end(database, former.fence, Outcome(Cause.LOST), if_lapsed=True) is not None
    assert (row(database, former.job_id).state, tries(database, former.job_id)[0].cause) == ("scheduled", "lost")
    assert end(database, former.fence) is None
    database.transaction("due", lambda tx: promote_due(tx, [former.job_id]))
    (current,) = set_off(database, former.job_id, claimer=BOB)
    assert current.attempt == 2
    assert end(database, former.fence) is None
    assert renew_all(database, {former.job_id: 1}).lost == {former.job_id}
    assert end(database, current.fence) is not None


@servers
def test_renewal_comes_before_the_reclaim(database: Database, stage: Stage) -> None:
    """The reclaimer has read the lease as lapsed and is then overtaken: under the lock it looks again."""
    (one,) = set_off(database, put(database), claimer=BOB)
    let_lapse(database, one.job_id)
    reclaimer = stage.actor(lambda: end(database, one.fence, Outcome(Cause.LOST), if_lapsed=True))
    reclaimer.until("finalize.lock")
    assert renew_all(database, {one.job_id: 1}, BOB).renewed == {one.job_id}
    assert reclaimer.finish() is None
    assert row(database, one.job_id).state == "running"


def test_due_jobs_become_ready(database: Database) -> None:
    a, b, c, later = (put(database, run_after="1h") for _ in range(4))
    now = put(database)
    with database.engine.begin() as conn:
        for seconds, job_id in ((30, b), (20, a), (10, c)):
            past = datetime.now(UTC) - timedelta(seconds=seconds)
            conn.execute(update(jobs).where(jobs.c.id == job_id).values(run_after=past))
    assert list(database.read("due", due)) == [b, a, c]
    ids = [b, a, c, later, now]
    assert database.transaction("due", lambda tx: promote_due(tx, ids)) == 3
    assert states(database, ids) == [*["ready"] * 3, "scheduled", "ready"]
    assert database.transaction("due", lambda tx: promote_due(tx, ids)) == 0
    run(database, a)


@servers
def test_due_job_that_somebody_holds_is_left(database: Database) -> None:
    held, free = (put(database, run_after="1h") for _ in range(2))
    with database.engine.begin() as conn:
        conn.execute(update(jobs).values(run_after=datetime.now(UTC) - timedelta(seconds=9)))
    with database.connection() as conn:
        conn.execute(database.dialect.lock(select(jobs.c.id).where(jobs.c.id == held))).all()
        assert database.transaction("due", lambda tx: promote_due(tx, [held, free])) == 1
        conn.rollback()
    assert states(database, [held, free]) == ["scheduled", "ready"]


@servers
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_open_transaction_that_names_a_running_job(database: Database, level: str) -> None:
    stay_open_while_others_work(database, level)


@pytest.mark.databases("postgresql")
def test_open_serializable_transaction_that_names_a_running_job(database: Database) -> None:
    """Not on MySQL and MariaDB, where SERIALIZABLE makes every SELECT of the caller's a locking one."""
    stay_open_while_others_work(database, "SERIALIZABLE")


def stay_open_while_others_work(database: Database, level: str) -> None:
    """It disturbs neither renewals nor the finalize, nor the claims of others; committed, its dependents run."""
    users = create_engine(database.engine.url, isolation_level=level)
    running, waiting = set_off(database, put(database), put(database))
    idle = put(database)
    never_used = uuid.uuid4().hex
    with users.connect() as conn:
        specs = [sqljobs.JobSpec("t", after=[running.job_id, waiting.job_id]) for _ in range(3)]
        ids = sqljobs.enqueue_many(conn, [*specs, sqljobs.JobSpec("t", key=never_used, after=[specs[0], idle])])
        held = {running.job_id: 1, waiting.job_id: 1}
        impatient = Database(database.engine, database.dialect)
        assert renew_all(impatient, held).renewed == set(held)
        decision = impatient.transaction("cancel", lambda tx: sqljobs.cancel(tx.conn, idle), patience=1)
        assert decision == [idle]
        assert end(impatient, running.fence) is not None
        assert renew_all(impatient, {waiting.job_id: 1}).renewed == {waiting.job_id}
        assert end(impatient, waiting.fence) is not None
        others = put(database)
        run(impatient, others)
        assert settle_all(database) == 0
        conn.commit()
    users.dispose()
    assert states(database, ids) == ["blocked"] * 4
    settle_all(database)
    assert states(database, ids) == [*["ready"] * 3, "cancelled"]
    for job_id in ids[:3]:
        run(database, job_id)
        assert row(database, job_id).attempt == 1


def test_supervisors_that_are_over_for_long_are_forgotten(database: Database) -> None:
    """At the start of another; those that live, or have just ended, are not, nor is what they share."""
    started = [registered(database, name) for name in ("old", "new", "silent")]
    database.transaction("gone", lambda tx: mark_gone(tx, started[:2]))
    past = datetime.now(UTC) - timedelta(days=2)
    with database.engine.begin() as conn:
        for supervisor in (started[0], started[2]):
            conn.execute(update(job_supervisors).where(job_supervisors.c.id == supervisor).values(heartbeat_at=past))
    for supervisor in started[:2]:
        used = [PublishedUsage("g", 1.0, 1.0, past)]
        database.transaction("use", lambda tx, one=supervisor, used=used: publish_usage(tx, one, used))  # type: ignore[misc]
    last = registered(database, "last")
    assert {row.id for row in database.read("x", read_supervisors)} == {started[1], started[2], last}
    assert len(database.read("x", lambda tx: read_usage(tx, but=last))) == 1


def registered(database: Database, name: str) -> str:
    one = uuid.uuid4().hex
    register(database, Registration(one, name, "host", "boot", 1, 1, 4, ["t"], 60.0, 10.0))
    return one


def test_a_long_name_that_is_taken_is_shortened(database: Database) -> None:
    name = "𝕒" * 200
    for _ in range(2):
        registered(database, name)
    assert {row.name for row in database.read("x", read_supervisors)} == {name, "𝕒" * 198 + "-2"}
