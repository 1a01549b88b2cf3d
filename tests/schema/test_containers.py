"""Containers: gates, counts, roll-up, nesting, and what cancel, retry and skip do to them."""

from collections.abc import Iterator

import pytest

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.finalize import Spawned, finalize
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.schema.containing import FAILED, act, assert_sound, box, put_all
from tests.schema.playing import DONE, NO_DELAY, end, put, row, run, set_off, states, work_off_all


@pytest.fixture(autouse=True)
def sound(database: Database) -> Iterator[None]:
    yield
    assert_sound(database)


@pytest.mark.parametrize(
    ("ends", "state", "counts"),
    [
        ([DONE, DONE], "done", {"done": 2, "failed": 0, "cancelled": 0}),
        ([DONE, FAILED], "failed", {"done": 1, "failed": 1, "cancelled": 0}),
        ([Outcome(Cause.CANCELLED), DONE], "cancelled", {"done": 1, "failed": 0, "cancelled": 1}),
        ([Outcome(Cause.CANCELLED), FAILED], "failed", {"done": 0, "failed": 1, "cancelled": 1}),
    ],
)
def test_a_container_ends_with_its_last_member(
    database: Database, ends: list[Outcome], state: str, counts: dict[str, int]
) -> None:
    outer, *members = put_all(database, *box(JobSpec("t"), JobSpec("t")))
    follower = put(database, after_any=[outer])
    for member, outcome in zip(members, ends, strict=True):
        assert states(database, [outer, follower]) == ["waiting", "blocked"]
        run(database, member, outcome)
    assert states(database, [outer, follower]) == [state, "ready"]
    with database.engine.connect() as conn:
        info = sqljobs.get_job(conn, outer)
    assert info.result == counts
    assert (info.child_counts.done, info.child_counts.open) == (counts["done"], 0)
    if state != "done":
        assert info.reason is not None
        assert (info.reason.code, info.reason.job_id) == (
            "children",
            members[0 if ends[0] is not DONE and ends[1] is DONE else 1],
        )


def test_members_wait_with_their_container(database: Database) -> None:
    first = put(database)
    inner = JobSpec("box", container=True)
    specs = box(JobSpec("t", run_after="1h"), inner, after=[first])
    outer, delayed, middle, leaf = put_all(database, *specs, JobSpec("t", parent=specs[2]))
    assert states(database, [outer, delayed, middle, leaf]) == ["blocked"] * 4
    late = put(database, parent=middle)
    run(database, first)
    assert states(database, [outer, delayed, middle, leaf, late]) == [
        "waiting", "scheduled", "waiting", "ready", "ready",
    ]  # fmt: skip


def test_a_doomed_container_takes_its_members_with_it(database: Database) -> None:
    first = put(database)
    outer, leaf, middle, deep = put_all(
        database,
        *(specs := box(JobSpec("t"), JobSpec("box", container=True), after=[first])),
        JobSpec("t", parent=specs[2]),
    )
    follower = put(database, after=[deep])
    run(database, first, FAILED)
    everything = [outer, leaf, middle, deep, follower]
    assert states(database, everything) == ["cancelled"] * 5
    assert {(row(database, i).reason, row(database, i).reason_job_id) for i in everything} == {("dependency", first)}
    assert act(database, "retry", first) == [first, *everything]
    assert states(database, everything) == ["blocked"] * 5
    run(database, first)
    assert states(database, everything) == ["waiting", "ready", "waiting", "ready", "blocked"]


def test_empty_containers(database: Database) -> None:
    (at_once,) = put_all(database, JobSpec("box", container=True))
    waits = put(database, "box", container=True)
    assert states(database, [at_once, waits]) == ["done", "waiting"]
    assert row(database, at_once).result == {"done": 0, "failed": 0, "cancelled": 0}
    run(database, put(database, parent=waits))
    assert states(database, [waits]) == ["done"]
    first = put(database)
    (later,) = put_all(database, JobSpec("box", container=True, after=[first]))
    run(database, first)
    assert states(database, [later]) == ["done"]
    assert act(database, "cancel", put(database, "box", container=True)) != []


def test_a_first_member_that_is_cancelled_at_birth_counts(database: Database) -> None:
    bad = put(database)
    run(database, bad, FAILED)
    outer = put(database, "box", container=True)
    member = put(database, parent=outer, after=[bad])
    assert states(database, [outer, member]) == ["waiting", "cancelled"]
    work_off_all(database)
    assert states(database, [outer]) == ["cancelled"]
    new, _, follower = put_all(database, *(specs := box(JobSpec("t", after=[bad]))), JobSpec("t", after=[specs[0]]))
    work_off_all(database)
    assert states(database, [new, follower]) == ["cancelled", "cancelled"]
    assert row(database, follower).reason_job_id == new


def test_who_takes_no_members(database: Database) -> None:
    ended = put(database)
    run(database, ended)
    leaf = put(database)
    (closed,) = put_all(database, JobSpec("box", container=True))
    asked = put(database, "box", container=True)
    (lease,) = set_off(database, put(database, parent=asked))
    act(database, "cancel", asked)
    for parent, words in (
        (ended, f"job {ended} takes no members: it is done"),
        (closed, f"job {closed} takes no members: it is done"),
        (leaf, f"job {leaf} takes no members: it is no container"),
        (asked, f"job {asked} takes no members: it is being cancelled"),
    ):
        with database.engine.begin() as conn, pytest.raises(sqljobs.Refused, match=words):
            sqljobs.enqueue(conn, "t", parent=parent)
    with database.engine.begin() as conn, pytest.raises(sqljobs.UnknownJob, match="parent: there is no job 99999"):
        sqljobs.enqueue(conn, "t", parent=99999)
    database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY))
    assert states(database, [asked, lease.job_id]) == ["cancelled", "cancelled"]
    assert row(database, asked).reason == "cancelled"


def test_circles_through_existing_containers_are_refused(database: Database) -> None:
    outer = put(database, "box", container=True)
    middle = put(database, "box", container=True, parent=outer)
    after_outer = put(database, after=[outer])
    further = put(database, after_any=[after_outer])
    other = put(database, "box", container=True)
    put(database, parent=other, after=[further])
    for upstream in (outer, middle, after_outer, further, other):
        with (
            database.engine.begin() as conn,
            pytest.raises(sqljobs.CycleError, match=f"would wait for job {upstream},"),
        ):
            sqljobs.enqueue(conn, "t", parent=middle, after=[upstream])
    beside = put(database, parent=outer)
    assert states(database, [put(database, parent=middle, after=[beside])]) == ["blocked"]
    one, two = put(database, "box", container=True), put(database, "box", container=True)
    with database.engine.begin() as conn, pytest.raises(sqljobs.CycleError):
        sqljobs.enqueue_many(conn, [JobSpec("t", parent=one, after=[two]), JobSpec("t", parent=two, after=[one])])


def test_cancel_of_a_container(database: Database) -> None:
    specs = box(JobSpec("t"), JobSpec("t"), JobSpec("box", container=True))
    outer, running, ready, middle, deep = put_all(database, *specs, JobSpec("t", parent=specs[3]))
    follower, cleanup = put(database, after=[deep]), put(database, after_any=[outer])
    (lease,) = set_off(database, running)
    assert act(database, "cancel", outer) == [outer, running, ready, middle, deep]
    assert states(database, [outer, running, ready, middle, deep]) == [
        "waiting", "running", "cancelled", "cancelled", "cancelled",
    ]  # fmt: skip
    database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY))
    assert states(database, [outer, running, follower, cleanup]) == ["cancelled", "cancelled", "cancelled", "ready"]
    assert set(act(database, "retry", outer)) == {outer, running, ready, middle, deep, follower}
    assert states(database, [outer, running, ready, middle, deep, follower, cleanup]) == [
        "waiting", "ready", "ready", "waiting", "ready", "blocked", "blocked",
    ]  # fmt: skip


def test_retry_and_skip_reopen_what_is_above(database: Database) -> None:
    specs = box(JobSpec("box", container=True))
    outer, middle, bad, good = put_all(database, *specs, *(JobSpec("t", parent=specs[1]) for _ in range(2)))
    follower = put(database, after=[outer])
    run(database, good)
    run(database, bad, FAILED)
    assert states(database, [outer, middle, follower]) == ["failed", "failed", "cancelled"]
    assert act(database, "retry", outer, dry_run=True) == act(database, "retry", outer)
    assert states(database, [outer, middle, bad, follower]) == ["waiting", "waiting", "ready", "blocked"]
    assert row(database, outer).result is None
    run(database, bad, FAILED)
    assert states(database, [outer, middle, follower]) == ["failed", "failed", "cancelled"]
    assert act(database, "skip", bad, result={"rows": 0}) == [bad, outer, middle, follower]
    assert states(database, [outer, middle, bad, follower]) == ["done", "done", "done", "ready"]
    assert (row(database, bad).result, row(database, bad).reason) == ({"rows": 0}, "skipped")
    for name in ("retry", "skip"):
        with database.engine.begin() as conn, pytest.raises(sqljobs.Refused, match=f"job {outer} cannot be"):
            getattr(sqljobs, name)(conn, outer)


def test_what_a_job_spawns_are_its_members(database: Database) -> None:
    (lease,) = set_off(database, put(database, group="g", weight=3, priority=5))
    one, other = JobSpec("t"), JobSpec("t", priority=1)
    spawned = Spawned([one, other], [JobSpec("t", after=[lease.job_id]), JobSpec("t", after=[one])])
    database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY, spawned=spawned))
    first = lease.job_id + 1
    assert states(database, range(lease.job_id, lease.job_id + 5)) == [
        "waiting",
        "ready",
        "ready",
        "blocked",
        "blocked",
    ]
    inherited = [
        (row(database, i).group_key, row(database, i).weight, row(database, i).priority)
        for i in range(first, first + 4)
    ]
    assert inherited == [("g", 3, 5), ("g", 3, 1), ("g", 3, 5), ("g", 3, 5)]
    run(database, first)
    run(database, first + 1, FAILED)
    assert states(database, [lease.job_id, first + 2]) == ["failed", "cancelled"]
    assert row(database, lease.job_id).result == 1, "its own result is kept"
    act(database, "retry", lease.job_id)
    assert states(database, [lease.job_id, first + 1, first + 2]) == ["waiting", "ready", "blocked"]
    run(database, first + 1)
    assert states(database, [lease.job_id, first + 2]) == ["done", "ready"]


@pytest.mark.parametrize("outcome", [FAILED, Outcome(Cause.SNOOZED), Outcome(Cause.ERROR), Outcome(Cause.CANCELLED)])
def test_what_does_not_end_well_spawns_nothing(database: Database, outcome: Outcome) -> None:
    (lease,) = set_off(database, put(database))
    database.transaction(
        "finalize", lambda tx: finalize(tx, lease.fence, outcome, NO_DELAY, spawned=Spawned([JobSpec("t")]))
    )
    with database.engine.begin() as conn, pytest.raises(sqljobs.UnknownJob):
        sqljobs.get_job(conn, lease.job_id + 1)


def test_what_the_database_refuses_is_refused_with_the_end(database: Database) -> None:
    (lease,) = set_off(database, put(database))
    child = JobSpec("t", after=[lease.job_id])
    with pytest.raises(sqljobs.CycleError):
        database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY, spawned=Spawned([child])))
    assert states(database, [lease.job_id]) == ["running"]
    end(database, lease.fence)


def test_a_circle_through_what_must_begin_first(database: Database) -> None:
    """A new member waits for a sibling in the same call, which starts only when its own container does."""
    early = put(database, "box", container=True)
    late = put(database, "box", container=True, after=[early])
    sibling = JobSpec("t", parent=late)
    with database.engine.begin() as conn, pytest.raises(sqljobs.CycleError, match=f"would wait for job {late}"):
        sqljobs.enqueue_many(conn, [sibling, JobSpec("t", parent=early, after=[sibling])])
    other = JobSpec("t", parent=early)
    assert states(database, put_all(database, other, JobSpec("t", parent=late, after=[other]))) == ["ready", "blocked"]


def test_what_is_cancelled_is_not_cancelled_for_another_member(database: Database) -> None:
    outer = JobSpec("box", container=True)
    first = JobSpec("t", parent=outer)
    inner = JobSpec("box", container=True, parent=outer, after=[first])
    ids = put_all(database, outer, first, inner, JobSpec("t", parent=inner))
    act(database, "cancel", ids[0])
    assert [(row(database, i).state, row(database, i).reason) for i in ids] == [("cancelled", "cancelled")] * 4


def test_a_job_that_is_there_already_gets_no_parent_and_waits_for_nothing_more(database: Database) -> None:
    outer = put(database, "box", container=True)
    taken = put(database, key="k")
    closed = put(database, "box", container=True)
    act(database, "cancel", closed)
    for parent in (outer, closed):
        assert put(database, key="k", parent=parent, after=[outer]) == taken
    again = JobSpec("t", key="k")
    assert put_all(database, again, JobSpec("t", key="k", after=[again])) == [taken, taken]
    assert (row(database, taken).state, row(database, taken).parent_id) == ("ready", None)
    assert row(database, outer).open_children == 0
    act(database, "cancel", outer)


def test_the_last_member_puts_its_follower_beside_itself(database: Database) -> None:
    outer, member = put_all(database, *box(JobSpec("t")))
    (lease,) = set_off(database, member)
    assert lease.parent == outer
    follower = JobSpec("t", after=[member], parent=lease.parent)
    spawned = Spawned(followers=[follower])
    database.transaction("finalize", lambda tx: finalize(tx, lease.fence, DONE, NO_DELAY, spawned=spawned))
    assert states(database, [outer, member, member + 1]) == ["waiting", "done", "ready"]
    run(database, member + 1)
    assert states(database, [outer]) == ["done"]


def test_what_is_shown_of_members_that_wait_and_of_a_failure(database: Database) -> None:
    first = put(database)
    outer, member, bad, worse = put_all(database, *box(*[JobSpec("t")] * 3, after=[first]))
    with database.engine.begin() as conn:
        reason = sqljobs.get_job(conn, member).reason
    assert reason is not None
    assert (reason.text, reason.job_id) == (f"waits with container {outer}", outer)
    run(database, first)
    run(database, member)
    for job_id in (bad, worse):
        run(database, job_id, FAILED)
    assert row(database, outer).reason_text == f"2 of 3 members failed (job {bad}, the first)"
