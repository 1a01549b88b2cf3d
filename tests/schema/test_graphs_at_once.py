"""Two at one graph: ends beside callers who hold a container, acts of operators beside ends, old snapshots."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.chores import work_off
from sqljobs.schema.enqueue import Within, enqueue_many
from sqljobs.schema.late_edges import check_edges, settle_ended
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.retry import retry, skip
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.schema.containing import FAILED, act, assert_sound, box, put_all
from tests.schema.playing import end, no_options, put, row, run, set_off, states, work_off_all

SERVERS = ("postgresql", "mariadb", "mysql")
pytestmark = pytest.mark.databases(*SERVERS)  # on SQLite there is one writer at a time
ERROR = Outcome(Cause.ERROR, error="no")


@pytest.fixture(autouse=True)
def sound(database: Database) -> Iterator[None]:
    yield
    supervise(database)
    assert_sound(database)


def no_check(_job_type: str, _args: object) -> None:
    """Any arguments will do."""


def supervise(database: Database) -> None:
    """What supervisors do when they look."""
    while True:
        looked, ended = database.transaction("edges", check_edges)
        for upstream in ended:
            database.transaction("settle", lambda tx, upstream=upstream: settle_ended(tx, upstream))  # type: ignore[misc]
        if not looked and not work_off_all(database):
            return


def test_an_end_does_not_wait_for_a_caller_who_adds_members(database: Database) -> None:
    """To a container that waits for this job, to one inside it, and to one around it."""
    first = JobSpec("t")
    outer = JobSpec("box", container=True, after=[first])
    inner = JobSpec("box", container=True, parent=outer)
    around = put(database, "box", container=True)
    upstream, waiting, deep, beside = put_all(database, first, outer, inner, JobSpec("t", parent=around))
    with database.engine.connect() as caller, caller.begin():
        members = [sqljobs.enqueue(caller, "t", parent=parent) for parent in (waiting, deep, around)]
        run(database, upstream)
        run(database, beside)
        assert states(database, [upstream, beside, waiting, around]) == ["done", "done", "blocked", "waiting"]
        while database.transaction("chores", work_off):
            continue
        assert database.transaction("chores", work_off) == 0, "what is held is left, without haste"
    supervise(database)
    assert states(database, [waiting, deep, around, *members]) == ["waiting"] * 3 + ["ready"] * 3


def test_a_doomed_container_that_a_caller_holds(database: Database) -> None:
    upstream = put(database)
    waiting = put(database, "box", container=True, after=[upstream])
    with database.engine.connect() as caller, caller.begin():
        member = sqljobs.enqueue(caller, "t", parent=waiting)
        run(database, upstream, FAILED)
        assert states(database, [upstream, waiting]) == ["failed", "blocked"]
    supervise(database)
    assert states(database, [waiting, member]) == ["cancelled", "cancelled"]
    assert row(database, member).reason_job_id == upstream


@pytest.mark.parametrize("name", ["retry", "skip"])
def test_the_last_sibling_ends_while_a_job_is_opened_again(database: Database, name: str) -> None:
    outer, bad, sibling = put_all(database, *box(JobSpec("t"), JobSpec("t")))
    follower = put(database, after=[outer])
    run(database, bad, FAILED)
    (lease,) = set_off(database, sibling)
    with Stage() as stage:
        operator = stage.actor(
            lambda: database.transaction(name, lambda tx: (retry if name == "retry" else skip)(tx, [bad]))
        )
        operator.until(f"{name}.lock")
        end(database, lease.fence)
        assert states(database, [outer, follower]) == ["failed", "cancelled"]
        assert operator.finish() == [bad, outer, follower]
    if name == "retry":
        assert states(database, [outer, bad, follower]) == ["waiting", "ready", "blocked"]
        run(database, bad)
    assert states(database, [outer, bad, follower]) == ["done", "done", "ready"]


def test_a_container_is_cancelled_while_a_job_in_it_is_opened_again(database: Database) -> None:
    outer, bad, sibling = put_all(database, *box(JobSpec("t"), JobSpec("t")))
    run(database, bad, FAILED)
    (lease,) = set_off(database, sibling)
    with Stage() as stage:
        operator = stage.actor(lambda: database.transaction("retry", lambda tx: retry(tx, [bad])))
        operator.until("retry.lock")
        act(database, "cancel", outer)
        with pytest.raises(sqljobs.Refused, match="is being cancelled"):
            operator.finish()
    end(database, lease.fence)
    assert states(database, [outer, bad, sibling]) == ["failed", "failed", "cancelled"]


def test_a_key_that_is_being_taken_is_refused(database: Database) -> None:
    job = put(database, key="k")
    run(database, job, FAILED)
    with Stage() as stage, database.engine.connect() as other:
        with other.begin():
            sqljobs.enqueue(other, "t", key="k")
            operator = stage.actor(lambda: database.transaction("retry", lambda tx: retry(tx, [job])))
            operator.until("retry.move_retry")
            operator.go()
        with pytest.raises(sqljobs.Refused, match="a key of these jobs was taken"):
            operator.finish()
    assert states(database, [job]) == ["failed"]


def old_snapshot(engine: Engine) -> Connection:
    """A caller at the level that MySQL and MariaDB give to everybody, who has read already."""
    caller = engine.connect().execution_options(isolation_level="REPEATABLE READ")
    caller.begin()
    caller.exec_driver_sql("SELECT count(*) FROM jobs").scalar()
    return caller


def test_cancel_with_an_old_snapshot_reaches_followers_that_it_does_not_show(database: Database) -> None:
    job = put(database)
    with old_snapshot(database.engine) as caller:
        follower = put(database, after=[job])
        supervise(database)
        sqljobs.cancel(caller, job)
        caller.commit()
    supervise(database)
    assert states(database, [follower]) == ["cancelled"]


@pytest.mark.databases("mariadb", "mysql")  # PostgreSQL has such a caller begin again
@pytest.mark.parametrize("name", ["retry", "skip"])
def test_retry_with_an_old_snapshot_reaches_what_it_does_not_show(database: Database, name: str) -> None:
    outer, bad, sibling = put_all(database, *box(JobSpec("t"), JobSpec("t")))
    run(database, bad, FAILED)
    with old_snapshot(database.engine) as caller:
        follower, behind = put(database, after=[bad]), put(database, after=[outer])
        run(database, sibling)
        supervise(database)
        assert states(database, [outer, follower, behind]) == ["failed", "cancelled", "cancelled"]
        getattr(sqljobs, name)(caller, bad)
        caller.commit()
    supervise(database)
    if name == "retry":
        assert states(database, [outer, bad, follower, behind]) == ["waiting", "ready", "blocked", "blocked"]
        run(database, bad)
    assert states(database, [outer, bad, follower, behind]) == ["done", "done", "ready", "ready"]


@pytest.mark.databases("mariadb", "mysql")
def test_a_key_of_a_container_that_was_taken_after_the_snapshot(database: Database) -> None:
    with old_snapshot(database.engine) as caller:
        taken = put(database, "box", container=True, key="k")
        outer = JobSpec("box", container=True, key="k")
        first, member = sqljobs.enqueue_many(caller, [outer, JobSpec("t", parent=outer)])
        caller.commit()
    assert first == taken
    assert row(database, member).parent_id == taken


def test_a_job_with_members_of_its_own_is_cancelled_between_two_tries(database: Database) -> None:
    (lease,) = set_off(database, put(database))
    below = [JobSpec("t", parent=lease.job_id), JobSpec("t", parent=lease.job_id)]
    within = Within(running=lease.job_id)
    made = database.transaction("put", lambda tx: enqueue_many(tx, below, no_options, no_check, within=within))
    ran, idle = (one.id for one in made)
    end(database, lease.fence, ERROR)
    run(database, ran)
    act(database, "cancel", lease.job_id)
    assert states(database, [lease.job_id, ran, idle]) == ["cancelled", "done", "cancelled"]
