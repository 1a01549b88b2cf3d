"""Members that a handler commits by itself, in a session of its own: while its job runs, between its tries, later."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.chores import work_off
from sqljobs.schema.ends import lock_rows
from sqljobs.schema.enqueue import Within, enqueue_many
from sqljobs.schema.finalize import finalize
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import promote_due
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.actors import Stage
from tests.schema.containing import FAILED, act, add_below, assert_sound, box, no_check, put_all
from tests.schema.locks import waits_for_lock
from tests.schema.playing import DONE, NO_DELAY, end, no_options, put, row, run, set_off, states, work_off_all
from tests.waiting import wait_until

SERVERS = ("postgresql", "mariadb", "mysql")  # on SQLite there is one writer at a time
ERROR = Outcome(Cause.ERROR, error="no")


@pytest.fixture(autouse=True)
def sound(database: Database) -> Iterator[None]:
    yield
    assert_sound(database)


def refused(database: Database, name: str, job_id: int, words: str) -> None:
    with database.engine.begin() as conn, pytest.raises(sqljobs.Refused, match=words):
        getattr(sqljobs, name)(conn, job_id)


@pytest.mark.parametrize("outcome", [FAILED, Outcome(Cause.CANCELLED)])
def test_they_are_retried_with_their_job(database: Database, outcome: Outcome) -> None:
    (lease,) = set_off(database, job := put(database))
    outer = JobSpec("box", container=True, parent=job)
    ran, bad, idle, inner, deep, behind = add_below(
        database, job, *[JobSpec("t")] * 3, outer, JobSpec("t", parent=outer), JobSpec("t", after=[outer])
    )
    follower = put(database, after=[idle])
    run(database, ran)
    run(database, bad, FAILED)
    end(database, lease.fence, outcome)
    assert_sound(database)
    everything = [job, ran, bad, idle, inner, deep, behind, follower]
    assert states(database, everything)[1:] == ["done", "failed", *["cancelled"] * 5]
    refused(database, "retry", idle, f"job {idle} is part of job {job}, which has ended by itself: retry {job}")
    assert set(act(database, "retry", job)) == {*everything} - {ran}
    assert states(database, everything) == [
        *("ready", "done", "ready", "ready", "waiting", "ready", "blocked", "blocked")
    ]
    for one in (job, bad, idle, deep, behind):
        run(database, one)
    assert states(database, everything) == ["done"] * 7 + ["ready"]


def test_they_go_on_between_two_tries_and_are_met_again_by_their_key(database: Database) -> None:
    (lease,) = set_off(database, job := put(database))
    keyed, keyless = add_below(database, job, JobSpec("t", key="k"), JobSpec("t"))
    end(database, lease.fence, ERROR)
    assert states(database, [job, keyed, keyless]) == ["scheduled", "ready", "ready"]
    run(database, keyless)
    assert database.transaction("due", lambda tx: promote_due(tx, [job])) == 1
    (lease,) = set_off(database, job)
    again, twice = add_below(database, job, JobSpec("t", key="k"), JobSpec("t"))
    assert again == keyed
    assert twice not in (keyed, keyless)
    end(database, lease.fence)
    run(database, keyed)
    assert states(database, [job]) == ["waiting"]
    run(database, twice)
    assert states(database, [job]) == ["done"]


def test_of_those_with_one_key_the_newest_is_retried(database: Database) -> None:
    (lease,) = set_off(database, job := put(database))
    (first,) = add_below(database, job, JobSpec("t", key="k"))
    run(database, first, FAILED)
    (second,) = add_below(database, job, JobSpec("t", key="k"))
    end(database, lease.fence, FAILED)
    assert act(database, "retry", job) == [job, second]
    run(database, job)
    run(database, second)
    assert states(database, [job, first, second]) == ["failed", "failed", "done"]
    assert act(database, "retry", job) == [job, first]
    run(database, first)
    assert states(database, [job]) == ["done"]


def test_no_retry_while_one_is_being_killed(database: Database) -> None:
    (lease,) = set_off(database, job := put(database))
    (member,) = add_below(database, job, JobSpec("t"))
    (flying,) = set_off(database, member)
    end(database, lease.fence, FAILED)
    refused(database, "retry", job, f"job {member} in job {job} is being cancelled: wait until it has ended")
    end(database, flying.fence)
    assert act(database, "retry", job) == [job, member]
    run(database, job)
    run(database, member)
    assert states(database, [job]) == ["done"]


def test_in_a_container_that_is_retried_or_skipped(database: Database) -> None:
    outer, job = put_all(database, *box(JobSpec("t")))
    (lease,) = set_off(database, job)
    idle, bad = add_below(database, job, JobSpec("t"), JobSpec("t"))
    run(database, bad, FAILED)
    end(database, lease.fence, ERROR)
    act(database, "cancel", outer)
    assert states(database, [outer, job, idle, bad]) == ["cancelled", "cancelled", "cancelled", "failed"]
    assert act(database, "retry", outer) == [outer, job, idle, bad]
    assert states(database, [outer, job, idle, bad]) == ["waiting", "ready", "ready", "ready"]
    run(database, bad, FAILED)
    run(database, job, FAILED)
    assert set(act(database, "skip", outer)) == {outer, job, bad}
    assert states(database, [outer, job, idle, bad]) == ["done", "done", "cancelled", "done"]


@contextmanager
def late(database: Database, job_id: int) -> Iterator[int]:
    """A process that the handler has forked adds a member, and commits only afterwards."""
    with database.engine.begin() as conn:
        tx = Transaction("late", conn, database.dialect, database.dialect.now(conn))
        spec = JobSpec("t", parent=job_id)
        yield enqueue_many(tx, [spec], no_options, no_check, within=Within(running=job_id))[0].id


@pytest.mark.databases(*SERVERS)
@pytest.mark.parametrize(("outcome", "state"), [(DONE, "done"), (FAILED, "failed"), (ERROR, "scheduled")])
def test_one_that_is_committed_after_the_end(database: Database, outcome: Outcome, state: str) -> None:
    (lease,) = set_off(database, job := put(database))
    with late(database, job) as member:
        end(database, lease.fence, outcome)
    assert sqljobs.doctor(database.engine) == []
    work_off_all(database)
    assert states(database, [job, member]) == [state, "ready" if state == "scheduled" else "cancelled"]
    if state == "failed":
        assert act(database, "retry", job) == [job, member]


@pytest.mark.databases(*SERVERS)
def test_one_that_is_committed_after_the_end_to_a_job_that_waits_for_others(database: Database) -> None:
    (lease,) = set_off(database, job := put(database))
    (other,) = add_below(database, job, JobSpec("t"))
    with late(database, job) as member:
        end(database, lease.fence)
    run(database, other)
    assert states(database, [job, other, member]) == ["waiting", "done", "ready"], "others are not counted for it"
    work_off_all(database)
    with late(database, job) as last:
        assert row(database, job).state == "waiting"
    run(database, member)
    assert states(database, [job, last]) == ["waiting", "ready"]
    run(database, last)
    assert states(database, [job]) == ["done"]
    with pytest.raises(sqljobs.Refused, match=f"job {job} takes no members: it is done"):
        add_below(database, job, JobSpec("t"))


@pytest.mark.databases(*SERVERS)
def test_one_that_is_committed_while_the_end_waits_for_the_row(database: Database) -> None:
    """What a waiting statement sees of other rows may be older than the row that it waits for."""
    (lease,) = set_off(database, job := put(database))
    with Stage() as stage:
        child = stage.actor(
            lambda: database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY))
        )

        def supervise(tx: Transaction) -> int:
            lock_rows(tx, "lock", [job])
            with late(database, job) as member:
                child.until("finalize.lock")
                child.go()
                wait_until(lambda: waits_for_lock(database), what="the end to stand before the row")
            work_off(tx)
            return member

        member = database.transaction("chores", supervise)
        child.finish()
    assert states(database, [job, member]) == ["waiting", "ready"]
    run(database, member)
    assert states(database, [job]) == ["done"]


@pytest.mark.databases(*SERVERS)
@pytest.mark.parametrize(("outcome", "state"), [(DONE, "waiting"), (FAILED, "failed"), (ERROR, "scheduled")])
def test_who_retries_one_does_not_hold_the_job_that_runs(database: Database, outcome: Outcome, state: str) -> None:
    (lease,) = set_off(database, job := put(database))
    (member,) = add_below(database, job, JobSpec("t"))
    run(database, member, FAILED)
    work_off_all(database)
    with database.engine.begin() as caller:
        assert sqljobs.retry(caller, member) == [member]
        ended = database.transaction("finalize", lambda tx: finalize(tx, lease.fence, outcome, NO_DELAY), patience=0.5)
        assert ended is not None
    work_off_all(database)
    if outcome is DONE:  # by its end the member had failed
        state = "failed"
    assert states(database, [job, member]) == [state, "ready" if state == "scheduled" else "cancelled"]
    if state == "failed":
        assert act(database, "retry", job) == [job, member]
