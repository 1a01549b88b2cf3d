"""When the next attempt comes: by backoff, as the handler asked, and never beyond what a calendar holds."""

from datetime import timedelta

import pytest

from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.schema.playing import end, put, row, run, set_off
from tests.schema.test_finalize import make_ready


def test_backoff_grows_with_used_up_attempts_alone(database: Database) -> None:
    """Refunds do not count: after an interruption the second error waits as long as a second error does."""
    job_id = put(database, max_attempts=9)
    backoff = Backoff(first=100.0, cap=100_000.0)
    waits = []
    for cause in (Cause.ERROR, Cause.INTERRUPTED, Cause.ERROR, Cause.SNOOZED, Cause.ERROR):
        (one,) = set_off(database, job_id)
        decision = end(database, one.fence, Outcome(cause, deploy=True), backoff)
        assert decision is not None
        if cause is Cause.ERROR:
            waits.append(decision.delay)
        make_ready(database)
    assert all(wait is not None and 0 <= wait <= 100.0 * 2**n for n, wait in enumerate(waits))
    job = row(database, job_id)
    assert (job.attempt, job.max_attempts) == (5, 11)


def test_delay_asked_for_by_the_handler(database: Database) -> None:
    job_id = put(database)
    run(database, job_id, Outcome(Cause.ERROR, after=12.5))
    job = row(database, job_id)
    assert job.run_after - job.updated_at == timedelta(seconds=12.5)


@pytest.mark.parametrize("cause", [Cause.ERROR, Cause.SNOOZED])
@pytest.mark.parametrize("after", [1e12, 1e300])
def test_delay_beyond_what_a_calendar_holds(database: Database, cause: Cause, after: float) -> None:
    job_id = put(database)
    run(database, job_id, Outcome(cause, after=after))
    job = row(database, job_id)
    assert job.state == "scheduled"
    assert job.run_after.year > 2900


def test_backoff_beyond_what_a_calendar_holds(database: Database) -> None:
    (one,) = set_off(database, put(database))
    assert end(database, one.fence, Outcome(Cause.ERROR), Backoff(1e15, 1e300)) is not None
    assert row(database, one.job_id).state == "scheduled"
