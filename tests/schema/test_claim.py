"""The claim: exactly the jobs asked for, in that order, each by one claimer, and never waiting for anybody."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from sqljobs.schema.claim import Claimer, claim
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.specs import Defaults
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.schema.playing import ALICE, BOB, edges, end, lease, put, row, run, set_off, states, tries


def ids_of(leases: list[Any]) -> list[int]:
    return [one.job_id for one in leases]


def test_exactly_those_asked_for_in_that_order(database: Database) -> None:
    a, b, c, d = (put(database, "t", {"n": n}) for n in range(4))
    leases = lease(database, d, a, c)
    assert ids_of(leases) == [d, a, c]
    assert [one.args["n"] for one in leases] == [3, 0, 2]
    assert states(database, [a, b, c, d]) == ["leased", "ready", "leased", "leased"]


def test_what_a_claim_writes(database: Database) -> None:
    job_id = put(database, "t", {"n": 1}, key="k", group="g", max_attempts=3, timeout=5)
    before = row(database, job_id)
    (one,) = lease(database, job_id)
    after = row(database, job_id)
    assert (after.state, after.in_flight, after.attempt, after.lease_owner) == ("leased", True, 1, ALICE.owner)
    assert after.lease_expires - after.heartbeat_at == timedelta(seconds=ALICE.ttl)
    assert after.updated_at == after.heartbeat_at > before.updated_at
    assert (after.key_slot, after.started_at, after.unmet_deps) == ("k", None, 0)
    assert (one.job_id, one.attempt, one.owner, one.supervisor) == (job_id, 1, ALICE.owner, ALICE.name)
    assert (one.type, one.group, one.key, one.batch) == ("t", "g", "k", before.batch)
    assert (one.max_attempts, one.timeout) == (3, 5.0)
    (attempt,) = tries(database, job_id)
    assert (attempt.attempt, attempt.owner, attempt.supervisor) == (1, ALICE.owner, ALICE.name)
    assert attempt.claimed_at == after.heartbeat_at
    assert (attempt.cause, attempt.started_at, attempt.ended_at, attempt.pid) == (None, None, None, None)


def test_only_what_may_start(database: Database) -> None:
    ready = put(database)
    blocked = put(database, after=[ready])
    scheduled = put(database, run_after="1h")
    leased, running, done, failed = (put(database) for _ in range(4))
    lease(database, leased, claimer=BOB)
    set_off(database, running, claimer=BOB)
    run(database, done)
    run(database, failed, Outcome(Cause.FAIL))
    ids = [failed, done, running, leased, scheduled, blocked, ready]
    before = [row(database, job_id) for job_id in ids]
    assert ids_of(lease(database, *ids, 10**12)) == [ready]
    assert [row(database, job_id) for job_id in ids[:-1]] == before[:-1]
    assert lease(database) == []


def test_options_follow_the_handler_at_each_claim(database: Database) -> None:
    follows = put(database)
    own = put(database, max_attempts=2, timeout=7)

    def options(_type: str) -> Defaults:
        return Defaults(max_attempts=9, timeout=60.0)

    leases = database.transaction("claim", lambda tx: claim(tx, ALICE, [follows, own], options))
    assert [(one.max_attempts, one.timeout) for one in leases] == [(9, 60.0), (2, 7.0)]
    for one in leases:
        job = row(database, one.job_id)
        assert (job.max_attempts, job.first_max_attempts, job.timeout) == (
            one.max_attempts,
            one.max_attempts,
            one.timeout,
        )


def test_fewer_attempts_than_were_used_already(database: Database) -> None:
    """The handler's new option may be below what the job has behind it: this attempt is then the last."""
    job_id = put(database)
    for _ in range(3):
        run(database, job_id, Outcome(Cause.ERROR))
        with database.engine.begin() as conn:
            conn.execute(update(jobs).values(state="ready"))
    (one,) = database.transaction("claim", lambda tx: claim(tx, ALICE, [job_id], lambda _: Defaults(max_attempts=1)))
    assert (one.attempt, one.max_attempts) == (4, 4)


def test_refunds_stay_when_the_handler_changes(database: Database) -> None:
    job_id = put(database)
    run(database, job_id, Outcome(Cause.SNOOZED, after=0.0))
    with database.engine.begin() as conn:
        conn.execute(update(jobs).values(state="ready"))
    (one,) = database.transaction("claim", lambda tx: claim(tx, ALICE, [job_id], lambda _: Defaults(max_attempts=2)))
    assert (one.attempt, one.max_attempts) == (2, 3)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_rows_that_somebody_holds_are_skipped(database: Database) -> None:
    ids = [put(database) for _ in range(5)]
    with database.connection() as conn:
        conn.execute(database.dialect.lock(select(jobs.c.id).where(jobs.c.id.in_(ids[1:3])))).all()
        assert ids_of(lease(database, *ids)) == [ids[0], ids[3], ids[4]]
        conn.rollback()
    assert ids_of(lease(database, *ids)) == ids[1:3]


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_claim_before_its_commit_stands_in_nobodys_way(database: Database, stage: Stage) -> None:
    """Among many ready rows it locks those that it takes, and not what an index led it past."""
    ids = [put(database, priority=n % 3) for n in range(40)]
    blocked = put(database, after=[ids[30]])
    alice = stage.actor(lambda: lease(database, *ids[:10]))
    alice.until("claim.commit")
    assert ids_of(lease(database, *ids[5:15], claimer=BOB)) == ids[10:15]
    (running,) = set_off(database, ids[30], claimer=BOB)
    fresh = put(database, after=[ids[0]])
    assert end(database, running.fence) is not None
    assert row(database, blocked).state == "ready"
    assert ids_of(alice.finish()) == ids[:10]
    assert not edges(database, fresh)[0].satisfied


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("pause", ["claim.lock", "claim.move_claim", "claim.attempts", "claim.commit"])
def test_two_claimers_of_the_same_jobs(database: Database, stage: Stage, pause: str) -> None:
    ids = [put(database) for _ in range(6)]
    alice = stage.actor(lambda: lease(database, *ids))
    alice.until(pause)
    bobs = ids_of(lease(database, *reversed(ids), claimer=BOB))
    alices = ids_of(alice.finish())
    assert sorted(alices + bobs) == ids
    assert bobs == (list(reversed(ids)) if pause == "claim.lock" else [])
    for job_id in ids:
        assert len(tries(database, job_id)) == row(database, job_id).attempt == 1


def test_many_at_once(database: Database) -> None:
    ids = [put(database) for _ in range(30)]
    claimer = Claimer("carol/3", "carol", 1.5)
    assert ids_of(lease(database, *ids, claimer=claimer)) == ids
    assert {row(database, job_id).lease_owner for job_id in ids} == {"carol/3"}
