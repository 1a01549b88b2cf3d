"""Two at one graph: ends beside callers who hold a container, acts of operators beside ends, old snapshots."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from sqlalchemy import Connection, Engine

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.chores import work_off
from sqljobs.schema.chunks import CHUNK
from sqljobs.schema.finalize import Spawned, finalize
from sqljobs.schema.late_edges import check_edges, settle_ended
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.retry import retry, skip
from sqljobs.schema.steps import step
from sqljobs.schema.transactions import Database
from tests.schema.actors import Actor, Stage
from tests.schema.containing import FAILED, act, add_below, assert_sound, box, put_all
from tests.schema.locks import waits_for_lock
from tests.schema.playing import DONE, NO_DELAY, end, put, row, run, set_off, states, work_off_all
from tests.waiting import wait_until

T = TypeVar("T")
SERVERS = ("postgresql", "mariadb", "mysql")
pytestmark = pytest.mark.databases(*SERVERS)  # on SQLite there is one writer at a time
ERROR = Outcome(Cause.ERROR, error="no")


@pytest.fixture(autouse=True)
def sound(database: Database) -> Iterator[None]:
    yield
    supervise(database)
    assert_sound(database)


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


def calling(database: Database, act: Callable[[Connection], T]) -> Callable[[], T]:
    """A caller's transaction: nobody repeats it for them."""

    def call() -> T:
        with database.engine.begin() as conn:
            return act(conn)

    return call


def test_a_container_and_a_member_of_it_are_retried_at_once(database: Database) -> None:
    """The containers around the member end while it is retried; who retries these locks them before it, too."""
    outer = JobSpec("box", container=True)
    inner = JobSpec("box", container=True, parent=outer)
    ids = put_all(database, outer, inner, JobSpec("t", parent=inner), JobSpec("t", parent=inner))
    run(database, ids[2], FAILED)
    (lease,) = set_off(database, ids[3])
    with Stage() as stage:
        one = stage.actor(calling(database, lambda conn: sqljobs.retry(conn, ids[2])))
        other = stage.actor(calling(database, lambda conn: sqljobs.retry(conn, ids[0])))
        one.until("retry.lock")
        end(database, lease.fence)
        one.until("retry.around")  # all that it knows of is locked
        other.go()
        wait_until(lambda: waits_for_lock(database), what="the other one to stand before a row")
        assert set(one.finish()) == set(ids[:3])
        with pytest.raises(sqljobs.Refused):
            other.finish()
    assert states(database, ids) == ["waiting", "waiting", "ready", "done"]


def test_what_a_retry_takes_back_is_locked_with_all_else(database: Database) -> None:
    """A job that waits for a member of a new container has the lower id."""
    outer = JobSpec("box", container=True)
    first = JobSpec("t", parent=outer)
    waiting = JobSpec("t", after_any=[first])
    _, early, bad = put_all(database, outer, waiting, first)
    assert early < bad
    act(database, "cancel", bad)
    with Stage() as stage:
        one = stage.actor(calling(database, lambda conn: sqljobs.retry(conn, bad)))
        other = stage.actor(calling(database, lambda conn: sqljobs.cancel(conn, early, bad)))
        one.until("retry.lock_undone")
        other.go()
        wait_until(lambda: waits_for_lock(database), what="the other one to stand before a row")
        one.finish()
        other.finish()
    assert states(database, [early, bad]) == ["cancelled", "cancelled"]


def test_callers_in_a_circle_are_told_to_begin_again(database: Database) -> None:
    first, second = put(database), put(database)
    run(database, first, FAILED)
    run(database, second, FAILED)
    with Stage() as stage:

        def both(conn: Connection, one: int, other: int) -> None:
            sqljobs.retry(conn, one)
            conn.exec_driver_sql("SELECT 1")
            step("caller.halfway")
            sqljobs.retry(conn, other)

        here = stage.actor(calling(database, lambda conn: both(conn, first, second)))
        there = stage.actor(calling(database, lambda conn: both(conn, second, first)))
        for caller in (here, there):
            caller.until("caller.halfway")
        for caller in (here, there):
            caller.go()
        told = [_error_of(caller) for caller in (here, there)]
    (conflict,) = [error for error in told if isinstance(error, sqljobs.Conflict)]
    assert "\n" not in str(conflict)
    assert "roll back and repeat the whole transaction" in str(conflict)
    assert [error for error in told if error is not conflict] == [None]
    assert states(database, [first, second]) == ["ready", "ready"]


def _error_of(caller: Actor[None]) -> Exception | None:
    try:
        caller.finish()
    except sqljobs.Error as error:
        return error
    return None


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
@pytest.mark.parametrize("name", ["retry", "skip"])
@pytest.mark.parametrize("counted", [True, False])
def test_an_end_that_the_snapshot_shows_as_uncounted_is_undone(database: Database, name: str, counted: bool) -> None:
    outer, bad, other = put_all(database, *box(JobSpec("t"), JobSpec("t")))
    with held(database, outer) as (member,):
        run(database, bad, FAILED)
    act(database, "cancel", member)
    with old_snapshot(database.engine) as caller:
        if counted:
            work_off_all(database)
        getattr(sqljobs, name)(caller, bad)
        caller.commit()
    if name == "retry":
        run(database, bad)
    supervise(database)
    run(database, other)
    supervise(database)
    assert (row(database, outer).done_children, row(database, outer).failed_children) == (2, 0)
    assert states(database, [outer]) == ["cancelled"]


@pytest.mark.databases("mariadb", "mysql")
def test_who_retries_keeps_nobody_from_leaving_work_or_adding_edges(database: Database) -> None:
    job = put(database)
    follower = put(database, after=[job])
    run(database, job, FAILED)
    outer, member = put_all(database, *box(JobSpec("t")))
    with old_snapshot(database.engine) as caller:
        sqljobs.retry(caller, job)
        with held(database, outer):
            (lease,) = set_off(database, member)
            database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY), patience=0.5)
        with database.engine.begin() as conn:
            conn.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 2")
            behind = sqljobs.enqueue(conn, "t", after=[follower])
            conn.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = DEFAULT")
        caller.commit()
    supervise(database)
    assert states(database, [job, follower, behind]) == ["ready", "blocked", "blocked"]


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
    ran, idle = add_below(database, lease.job_id, JobSpec("t"), JobSpec("t"))
    end(database, lease.fence, ERROR)
    run(database, ran)
    act(database, "cancel", lease.job_id)
    assert states(database, [lease.job_id, ran, idle]) == ["cancelled", "done", "cancelled"]


@contextmanager
def held(database: Database, *containers: int) -> Iterator[list[int]]:
    """A caller adds a member to each, and takes a long time over it."""
    with database.engine.connect() as caller, caller.begin():
        yield [sqljobs.enqueue(caller, "t", parent=one) for one in containers]


def end_with(database: Database, fence: Fence, *followers: JobSpec) -> None:
    """The end of a handler that has enqueued these; it waits for nobody."""
    spawned = Spawned(followers=followers)
    database.transaction("finalize", lambda tx: finalize(tx, fence, DONE, NO_DELAY, spawned=spawned), patience=0.5)


@pytest.mark.parametrize("beside", [True, False])
def test_an_end_puts_its_follower_into_a_container_that_a_caller_holds(database: Database, beside: bool) -> None:
    """Beside itself, or into another one, which is over by all that is counted there."""
    outer = put(database, "box", container=True)
    (lease,) = set_off(database, put(database, parent=outer if beside else None))
    with held(database, outer) as (member,):
        end_with(database, lease.fence, JobSpec("t", parent=outer))
        follower = member + 1
        assert states(database, [lease.job_id, follower, outer]) == ["done", "ready", "waiting"]
        assert sqljobs.doctor(database.engine) == []
        while database.transaction("chores", work_off):
            continue
    run(database, member)
    assert states(database, [outer, follower]) == ["waiting", "ready"]
    supervise(database)
    assert states(database, [outer, follower]) == ["waiting", "ready"]
    run(database, follower)
    assert states(database, [outer]) == ["done"]


def test_an_end_puts_its_follower_into_a_held_container_that_is_blocked(database: Database) -> None:
    first = put(database)
    outer = put(database, "box", container=True, after=[first])
    (lease,) = set_off(database, put(database))
    with held(database, outer) as (member,):
        end_with(database, lease.fence, JobSpec("t", parent=outer))
        follower = member + 1
        assert states(database, [follower]) == ["blocked"]
        run(database, first)
    supervise(database)
    assert states(database, [outer, member, follower]) == ["waiting", "ready", "ready"]


def test_an_end_puts_its_follower_into_a_container_that_is_being_cancelled(database: Database) -> None:
    outer, member = put_all(database, *box(JobSpec("t")))
    (lease,) = set_off(database, put(database))
    with database.engine.connect() as caller, caller.begin():
        sqljobs.cancel(caller, outer)
        end_with(database, lease.fence, JobSpec("t", parent=outer, after=[member]))
    supervise(database)
    follower = lease.job_id + 1
    assert states(database, [outer, member, follower]) == ["cancelled"] * 3


def test_what_callers_hold_hides_nothing_else(database: Database) -> None:
    outer, *members = put_all(database, *box(*[JobSpec("t")] * (CHUNK + 20)))
    first = JobSpec("t")
    other, beside, lone = put_all(database, *box(JobSpec("t")), first)
    follower = put(database, "box", container=True, after=[lone])
    with held(database, outer) as (late,):
        for lease in set_off(database, *members):
            end(database, lease.fence)
        with held(database, other, follower):
            run(database, beside)
            run(database, lone)
        supervise(database)
        assert states(database, [outer, other, follower]) == ["waiting", "waiting", "waiting"]
        assert row(database, other).done_children == 1
        assert row(database, outer).done_children == 0
        assert database.transaction("chores", work_off) == 0
    supervise(database)
    assert row(database, outer).done_children == CHUNK + 20
    assert states(database, [late]) == ["ready"]


@pytest.mark.parametrize("kind", ["after_any", "after_failed"])
def test_a_look_at_late_edges_waits_for_no_container(database: Database, kind: str) -> None:
    """The container is committed when its upstream, which had ended badly, is open again."""
    upstream = put(database)
    run(database, upstream, FAILED)
    with database.engine.begin() as conn:
        outer = sqljobs.enqueue(conn, "box", container=True, **{kind: [upstream]}, after=[(gate := put(database))])
        act(database, "retry", upstream)
    with held(database, outer):
        look(database)
        assert row(database, outer).unmet_deps == 1, "it is left, and looked at again"
    supervise(database)
    assert row(database, outer).unmet_deps == 2
    run(database, gate)
    assert states(database, [outer]) == ["blocked"]
    run(database, upstream, FAILED)
    assert states(database, [outer]) == ["waiting"]


@pytest.mark.parametrize("ended", [True, False])
def test_what_is_opened_after_all_waits_for_no_container(database: Database, ended: bool) -> None:
    """A member of a container, committed as cancelled when its upstream, which had failed, is open again."""
    outer = put(database, "box", container=True)
    upstream = put(database)
    run(database, upstream, FAILED)
    other = put(database, parent=outer)
    with database.engine.begin() as conn:
        member = sqljobs.enqueue(conn, "t", parent=outer, after=[upstream])
        act(database, "retry", upstream)
    if ended:
        run(database, upstream)
    with held(database, outer):
        look(database)
        assert states(database, [member]) == ["cancelled"]
    supervise(database)
    assert states(database, [member, other, outer]) == ["ready" if ended else "blocked", "ready", "waiting"]


def look(database: Database) -> None:
    """A supervisor's look at late edges, which waits for nobody."""
    _, ended = database.transaction("edges", check_edges, patience=0.5)
    for upstream in ended:
        database.transaction("settle", lambda tx, upstream=upstream: settle_ended(tx, upstream), patience=0.5)  # type: ignore[misc]
