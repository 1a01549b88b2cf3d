"""Retry and skip where containers are around: what they open again, what they take back, and what they refuse."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.finalize import Spawned, finalize
from sqljobs.schema.retry import retryable
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.containing import FAILED, act, add_below, assert_sound, box, put_all
from tests.schema.playing import DONE, NO_DELAY, end, put, row, run, set_off, states


@pytest.fixture(autouse=True)
def sound(database: Database) -> Iterator[None]:
    yield
    assert_sound(database)


def refused(database: Database, name: str, job_id: int, words: str) -> None:
    def everything() -> list[object]:
        with database.engine.connect() as conn:
            return [tuple(one) for one in conn.execute(select(jobs).order_by(jobs.c.id))]

    before = everything()
    with database.engine.begin() as conn, pytest.raises(sqljobs.Refused, match=words):
        getattr(sqljobs, name)(conn, job_id)
    assert everything() == before


@pytest.mark.parametrize("kind", ["after_any", "after_failed"])
def test_what_was_satisfied_is_taken_back_from_a_job_that_had_ended_meanwhile(database: Database, kind: str) -> None:
    first = put(database)
    idle, shut = put(database, **{kind: [first]}), put(database, "box", container=True, **{kind: [first]})
    act(database, "cancel", idle, shut)
    run(database, first, FAILED)
    act(database, "retry", first)
    act(database, "retry", idle, shut)
    assert states(database, [first, idle, shut]) == ["ready", "blocked", "blocked"]
    run(database, first, FAILED)
    assert states(database, [idle, shut]) == ["ready", "waiting"]


def test_a_container_that_had_begun_is_not_held_back_again(database: Database) -> None:
    first = put(database)
    outer, member = put_all(database, *box(JobSpec("t"), after_any=[first]))
    empty = put(database, "box", container=True, after_any=[first])
    run(database, first, FAILED)
    act(database, "cancel", outer, empty)
    act(database, "retry", first)
    act(database, "retry", outer, empty)
    assert states(database, [first, outer, member, empty]) == ["ready", "waiting", "ready", "waiting"]


def test_a_follower_of_failures_that_has_run_may_run_again_while_what_it_follows_is_open(database: Database) -> None:
    first = put(database)
    notify = put(database, after_failed=[first])
    run(database, first, FAILED)
    run(database, notify, FAILED)
    act(database, "retry", first)
    act(database, "retry", notify)
    assert states(database, [first, notify]) == ["ready", "ready"]


def test_nothing_is_opened_in_a_container_that_is_being_cancelled(database: Database) -> None:
    outer, flying, idle = put_all(database, *box(JobSpec("t"), JobSpec("t")))
    (lease,) = set_off(database, flying)
    act(database, "cancel", outer)
    refused(database, "retry", idle, f"job {idle} is part of job {outer}, which is being cancelled: wait")
    end(database, lease.fence)
    assert set(act(database, "retry", idle)) == {outer, idle}


def test_nothing_is_opened_in_what_is_done(database: Database) -> None:
    (lease,) = set_off(database, job := put(database))
    (member,) = add_below(database, job, JobSpec("t"))
    end(database, lease.fence, FAILED)
    act(database, "skip", job)
    assert states(database, [job, member]) == ["done", "cancelled"]
    refused(database, "retry", member, f"job {member} is part of job {job}, which is done")


def test_a_container_in_the_container_that_the_failure_had_closed(database: Database) -> None:
    """It is around a job that was cancelled, and it is closed by one that failed: retried, both are open again."""
    outer = JobSpec("box", container=True)
    bad = JobSpec("t", parent=outer)
    inner = JobSpec("box", container=True, parent=outer, after=[bad])
    ids = put_all(database, outer, bad, inner, JobSpec("t", parent=inner), JobSpec("t", parent=inner))
    act(database, "cancel", ids[4])
    run(database, ids[1], FAILED)
    assert states(database, ids) == ["failed", "failed", "cancelled", "cancelled", "cancelled"]
    refused(
        database, "retry", ids[4], f"job {ids[4]} is part of job {ids[2]}, which was cancelled because of job {ids[1]}"
    )
    assert set(act(database, "retry", ids[0])) == set(ids)
    assert states(database, ids) == ["waiting", "ready", "blocked", "blocked", "blocked"]


def test_what_is_enclosed_by_what_is_opened_later(database: Database) -> None:
    """The member is met before the container around it: it is opened all the same."""
    first, other = put(database), put(database)
    second = put(database, after=[first])
    outer = put(database, "box", container=True, after=[second])
    inner = put(database, "box", container=True, parent=outer)
    member = put(database, parent=inner, after=[other])
    run(database, other, FAILED)
    act(database, "cancel", inner)
    run(database, first, FAILED)
    assert [row(database, i).reason for i in (second, outer, inner, member)] == [
        *("dependency", "dependency", "cancelled", "dependency")
    ]
    assert set(act(database, "retry", first, other)) == {first, other, second, outer, inner, member}
    assert states(database, [second, outer, inner, member]) == ["blocked"] * 4


def test_a_container_without_anything_to_retry_in_it_is_retried_itself(database: Database) -> None:
    watched, first = put(database), put(database)
    run(database, watched)
    outer, member = put_all(database, *box(JobSpec("t", after_failed=[watched]), after=[first]))
    assert states(database, [outer, member]) == ["blocked", "cancelled"]
    act(database, "cancel", outer)
    assert act(database, "retry", outer) == [outer]
    assert states(database, [outer, member]) == ["blocked", "cancelled"]
    run(database, first)
    assert states(database, [outer, member]) == ["done", "cancelled"]


def test_a_circle_that_a_retry_would_close_is_refused(database: Database) -> None:
    """The container had ended when a job that it waits for got a child that waits for what follows the container."""
    spawning = put(database, "spawning")
    outer, member = put_all(database, *box(JobSpec("t", after_any=[spawning])))
    behind = put(database, "behind", after=[outer])
    act(database, "cancel", member)
    (lease,) = set_off(database, spawning)
    spawned = Spawned([JobSpec("child", after_any=[behind])])
    database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY, spawned=spawned))
    child = behind + 1
    refused(database, "retry", member, f"child {child} -> .*cancel one of these first")
    act(database, "cancel", child)
    act(database, "retry", member)
    assert states(database, [spawning, outer, member, behind]) == ["cancelled", "waiting", "ready", "blocked"]


def test_a_job_that_a_new_member_follows_may_not_wait_for_its_container(database: Database) -> None:
    outer = put(database, "box", container=True)
    behind = put(database, "behind", after=[outer])
    act(database, "cancel", behind)
    member = put(database, "member", parent=outer, after_any=[behind])
    refused(database, "retry", behind, "wait for each other")
    run(database, member)
    act(database, "retry", behind)
    assert states(database, [outer, behind]) == ["done", "ready"]


def test_what_was_cancelled_for_another_may_be_named_beside_it(database: Database) -> None:
    bad = put(database)
    follower = put(database, after=[bad])
    run(database, bad, FAILED)
    refused(database, "retry", follower, f"job {follower} was cancelled because of job {bad}: retry {bad}")
    assert act(database, "retry", bad, follower) == [bad, follower]
    assert states(database, [bad, follower]) == ["ready", "blocked"]


def test_a_job_whose_upstream_is_cancelled_is_retried_with_it(database: Database) -> None:
    first = put(database)
    second = put(database, after=[first])
    act(database, "cancel", second)
    act(database, "cancel", first)
    refused(database, "retry", second, f"job {second} waits for job {first}, which is cancelled: retry {first}, too")
    assert act(database, "retry", first, second) == [first, second]
    assert states(database, [first, second]) == ["ready", "blocked"]


def test_what_was_not_needed_is_not_retried(database: Database) -> None:
    watched = put(database)
    notify = put(database, after_failed=[watched])
    run(database, watched)
    bad = put(database)
    run(database, bad, FAILED)
    words = f"job {notify} cannot be retried: none of the jobs that it is there for ended badly"
    refused(database, "retry", notify, words)
    with database.engine.begin() as conn, pytest.raises(sqljobs.Refused, match=words):
        sqljobs.retry(conn, bad, notify)
    assert states(database, [notify, bad]) == ["cancelled", "failed"]
    assert database.read("retryable", lambda tx: retryable(tx, [notify, bad])) == [bad]


def test_a_member_stays_closed_with_a_container_that_was_closed_for_another_job(database: Database) -> None:
    mine, others = put(database), put(database)
    outer, member = put_all(database, *box(JobSpec("t", after=[mine]), after=[others]))
    run(database, mine, FAILED)
    run(database, others, FAILED)
    assert act(database, "retry", mine) == [mine]
    assert [row(database, i).reason_job_id for i in (outer, member)] == [others, mine]
    assert_sound(database)
    assert act(database, "retry", others) == [others, outer, member]
