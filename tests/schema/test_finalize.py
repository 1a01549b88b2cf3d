"""The end of an attempt: every cause, what follows, what is kept; and that a stale fence changes nothing at all."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from sqljobs.schema.cancel import cancel
from sqljobs.schema.columns import JsonText
from sqljobs.schema.finalize import start
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import DONE, end, end_settled, lease, put, row, run, set_off, states, tries

USED_UP = (Cause.ERROR, Cause.EXIT, Cause.SIGNAL, Cause.TIMEOUT, Cause.MEMORY, Cause.LOST)
FATAL = (Cause.BAD_RESULT, Cause.BAD_ARGS, Cause.FAIL)
FROM_LEASED = (*USED_UP, Cause.BAD_ARGS, Cause.INTERRUPTED, Cause.LEASE_LOST, Cause.CANCELLED)
# cause -> (state after the first of two attempts, after the last one, max_attempts that is then left of 2)
FOLLOWS: dict[Cause, tuple[str, str, int]] = {
    Cause.DONE: ("done", "done", 2),
    **dict.fromkeys(USED_UP, ("scheduled", "failed", 2)),
    **dict.fromkeys(FATAL, ("failed", "failed", 2)),
    Cause.INTERRUPTED: ("ready", "ready", 3),
    Cause.LEASE_LOST: ("ready", "ready", 3),
    Cause.SNOOZED: ("scheduled", "scheduled", 3),
    Cause.CANCELLED: ("cancelled", "cancelled", 2),
}
FINAL = ("done", "failed", "cancelled")


def make_ready(database: Database) -> None:
    """Time passes, and a supervisor has promoted what is due."""
    with database.engine.begin() as conn:
        conn.execute(update(jobs).where(jobs.c.state == "scheduled").values(state="ready"))


def test_every_cause_is_covered() -> None:
    assert set(FOLLOWS) == set(Cause)


def test_what_follows(database: Database) -> None:
    """For each cause, one job ends in its first attempt and one in the last that it has."""
    for cause in Cause:
        first, last = (put(database, key=f"{cause} {which}", max_attempts=2) for which in ("first", "last"))
        run(database, last, Outcome(Cause.ERROR))
        make_ready(database)
        end_and_look(database, first, cause, attempt=1, state=FOLLOWS[cause][0])
        end_and_look(database, last, cause, attempt=2, state=FOLLOWS[cause][1])


def end_and_look(database: Database, job_id: int, cause: Cause, *, attempt: int, state: str) -> None:
    """One attempt that ends by `cause`, and all that must be written then."""
    outcome = Outcome(cause, error=f"why {cause}", after=60.0 if cause is Cause.SNOOZED else None)
    (one,) = set_off(database, job_id)
    decision = end(database, one.fence, outcome)
    assert decision is not None
    assert (decision.cause, decision.state) == (cause, state)
    job = row(database, job_id)
    assert (job.state, job.attempt, job.max_attempts) == (state, attempt, FOLLOWS[cause][2])
    assert job.first_max_attempts == 2
    assert (job.in_flight, job.lease_owner, job.lease_expires, job.heartbeat_at) == (False, None, None, None)
    assert (job.ended_at is not None) is (state in FINAL)
    assert job.key_slot == (None if state in FINAL else job.key)
    written = tries(database, job_id)[-1]
    assert (written.attempt, written.cause, written.error) == (attempt, cause, f"why {cause}")
    assert written.ended_at == job.updated_at
    assert written.started_at is not None
    assert written.pid == 1
    if state == "scheduled":
        assert job.run_after == written.ended_at + timedelta(seconds=60.0 if cause is Cause.SNOOZED else 0.0)


def test_ends_that_come_before_the_handler_is_reached(database: Database) -> None:
    for cause in FROM_LEASED:
        (one,) = lease(database, put(database))
        assert end(database, one.fence, Outcome(cause)) is not None, cause
        assert row(database, one.job_id).state == FOLLOWS[cause][0], cause
        assert tries(database, one.job_id)[0].started_at is None


def test_ends_that_need_a_handler_change_nothing_before_it(database: Database) -> None:
    (one,) = lease(database, put(database))
    before = everything(database)
    for cause in (Cause.DONE, Cause.SNOOZED):
        assert end(database, one.fence, Outcome(cause)) is None
    assert everything(database) == before


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, None),
        ("0", 0),
        ('{"z":1,"a":[18446744073709551617]}', {"z": 1, "a": [2**64 + 1]}),
        ('"🐘\\u0001"', "🐘\x01"),
    ],
)
def test_results(database: Database, text: str | None, value: Any) -> None:
    job_id = put(database)
    run(database, job_id, Outcome(Cause.DONE, result=None if text is None else JsonText(text)))
    assert row(database, job_id).result == value
    with database.engine.connect() as conn:
        is_null = conn.execute(select(jobs.c.result.is_(None)).where(jobs.c.id == job_id)).scalar_one()
    assert bool(is_null) is (text is None)


def test_reasons(database: Database) -> None:
    told, crashed, cancelled, asked = (put(database, max_attempts=1) for _ in range(4))
    run(database, told, Outcome(Cause.FAIL, error="x", reason="no such order"))
    run(database, crashed, Outcome(Cause.ERROR, error="Traceback:\n  File\nValueError: 🐘 " + "é" * 3000 + "\n\n"))
    run(database, cancelled, Outcome(Cause.CANCELLED, reason="not wanted"))
    (one,) = set_off(database, asked)
    database.transaction("cancel", lambda tx: cancel(tx, [asked]))
    end(database, one.fence)
    found = [(row(database, i).reason, row(database, i).reason_text) for i in (told, crashed, cancelled, asked)]
    assert found[0] == ("fail", "no such order")
    assert found[1][0] == "error"
    assert found[1][1].startswith("ValueError: 🐘 ééé")
    assert len(found[1][1].encode()) <= 2000
    assert found[2:] == [("cancelled", "not wanted"), ("cancelled", "cancelled by an operator")]


def test_after_a_cancel_request_every_end_is_a_cancel(database: Database) -> None:
    for cause in Cause:
        (one,) = set_off(database, put(database, key=f"after {cause}"))
        database.transaction("cancel", lambda tx, one=one: cancel(tx, [one.job_id]))  # type: ignore[misc]
        assert row(database, one.job_id).state == "running"
        end(database, one.fence, Outcome(cause, result=JsonText("1") if cause is Cause.DONE else None))
        job = row(database, one.job_id)
        assert (job.state, job.reason, job.result, job.key_slot) == ("cancelled", "cancelled", None, None), cause
        assert tries(database, one.job_id)[0].cause == "cancelled"


def test_stale_fences_change_no_row(database: Database) -> None:
    """Another owner, an earlier attempt, a later one, an ended one: nothing of it may leave a trace."""
    dependent_on = put(database)
    dependent = put(database, after=[dependent_on])
    (former,) = set_off(database, dependent_on)
    end(database, former.fence, Outcome(Cause.INTERRUPTED, deploy=True))
    (current,) = set_off(database, dependent_on)
    done = set_off(database, put(database))[0].fence
    end(database, done)
    stale = [
        former.fence,
        Fence(current.job_id, current.attempt, "alice/2"),
        Fence(current.job_id, current.attempt, "ALICE/1"),
        Fence(current.job_id, current.attempt, "alice/1 "),
        Fence(current.job_id, current.attempt + 1, current.owner),
        Fence(current.job_id + 10**6, 1, current.owner),
        done,
    ]
    before = everything(database)
    for fence in stale:
        for cause in Cause:
            assert end(database, fence, Outcome(cause, error="stale")) is None
        assert not database.transaction("start", lambda tx, fence=fence: start(tx, fence, pid=2))  # type: ignore[misc]
    assert everything(database) == before
    assert end(database, current.fence) is not None
    assert states(database, [dependent_on, dependent]) == ["done", "ready"]


def test_stale_fences_start_nothing(database: Database) -> None:
    (current,) = lease(database, put(database))
    before = everything(database)
    for fence in (
        Fence(current.job_id, current.attempt, "alice/2"),
        Fence(current.job_id, current.attempt + 1, current.owner),
        Fence(current.job_id, current.attempt - 1, current.owner),
        Fence(current.job_id + 10**6, current.attempt, current.owner),
    ):
        assert not database.transaction("start", lambda tx, fence=fence: start(tx, fence, pid=2))  # type: ignore[misc]
    assert everything(database) == before
    for wanted in (True, False):  # the second time it is running already
        assert database.transaction("start", lambda tx: start(tx, current.fence, pid=2)) is wanted


def everything(database: Database) -> list[Any]:
    with database.engine.connect() as conn:
        return [
            conn.execute(select(table).order_by(*table.primary_key.columns)).all()
            for table in (jobs, job_deps, job_attempts)
        ]


def test_two_ends_of_one_attempt(database: Database) -> None:
    (one,) = set_off(database, put(database))
    assert end_settled(database, one.fence)
    assert not end_settled(database, one.fence, Outcome(Cause.ERROR))
    assert row(database, one.job_id).state == "done"


def test_sixth_interruption_in_a_row_is_an_error(database: Database) -> None:
    """Of those that never came to the handler; a deploy is always an interruption."""
    job_id = put(database, max_attempts=3)

    def interrupt(*, reached: bool = False, deploy: bool = False) -> None:
        (one,) = set_off(database, job_id) if reached else lease(database, job_id)
        assert end(database, one.fence, Outcome(Cause.INTERRUPTED, deploy=deploy)) is not None
        make_ready(database)

    for _ in range(6):
        interrupt()
    causes = [*["interrupted"] * 5, "error"]
    assert [one.cause for one in tries(database, job_id)] == causes
    for _ in range(5):
        interrupt()
    interrupt(reached=True, deploy=True)
    for _ in range(5):
        interrupt()
    interrupt(deploy=True)
    assert [one.cause for one in tries(database, job_id)] == [*causes, *["interrupted"] * 12]
    assert row(database, job_id).state == "ready"


def test_fail_on_ends_it_at_once(database: Database) -> None:
    job_id = put(database)
    run(database, job_id, Outcome(Cause.TIMEOUT, fatal=True))
    assert (row(database, job_id).state, row(database, job_id).reason) == ("failed", "timeout")


def test_reclaim_leaves_a_lease_that_has_not_lapsed(database: Database) -> None:
    (one,) = set_off(database, put(database))
    assert end(database, one.fence, Outcome(Cause.LOST), if_lapsed=True) is None
    expired = row(database, one.job_id).heartbeat_at - timedelta(seconds=1)
    with database.engine.begin() as conn:
        conn.execute(update(jobs).values(lease_expires=expired))
    assert end(database, one.fence, Outcome(Cause.LOST), if_lapsed=True) is not None
    assert row(database, one.job_id).state == "scheduled"
    assert end(database, one.fence, DONE) is None
