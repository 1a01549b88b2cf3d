"""Each function breaks one rule of a queue by hand, behind the back of the state machine."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import delete, insert

from sqljobs.schema.limit_tables import job_charges
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.doctoring import blocked_pair, change, change_attempts, long_ago, now
from tests.schema.playing import BOB, DONE, put, run, set_off

FAILED = Outcome(Cause.FAIL, error="no")
ERROR = Outcome(Cause.ERROR, error="no")
Break = Callable[[Database], int]
BREAKS: dict[str, tuple[Break, set[str]]] = {}


def breaks(*codes: str) -> Callable[[Break], Break]:
    """The decorated function breaks these rules, for the job whose id it returns."""

    def note(function: Break) -> Break:
        BREAKS[function.__name__] = (function, set(codes))
        return function

    return note


def ran(database: Database, outcome: Outcome = DONE, **options: Any) -> int:
    job_id = put(database, **options)
    run(database, job_id, outcome)
    return job_id


@breaks("attempt_numbers")
def attempt_1_is_missing(database: Database) -> int:
    job_id = ran(database, ERROR)
    change_attempts(database, job_id, attempt=2)
    return job_id


@breaks("attempt_numbers")
def attempt_fell(database: Database) -> int:
    job_id = ran(database, ERROR)
    change(database, job_id, attempt=0)
    return job_id


@breaks("attempt_numbers")
def no_attempt_at_all(database: Database) -> int:
    job_id = put(database)
    change(database, job_id, attempt=1)
    return job_id


@breaks("open_attempt")
def another_owner(database: Database) -> int:
    job_id = put(database)
    set_off(database, job_id)
    change_attempts(database, job_id, owner="bob/2")
    return job_id


@breaks("open_attempt")
def open_but_not_in_flight(database: Database) -> int:
    job_id = ran(database, ERROR)
    change_attempts(database, job_id, cause=None, ended_at=None)
    return job_id


@breaks("open_attempt")
def ended_but_in_flight(database: Database) -> int:
    job_id = put(database)
    set_off(database, job_id)
    change_attempts(database, job_id, cause="error", ended_at=now())
    return job_id


@breaks("attempts_of_no_job")
def job_row_lost(database: Database) -> int:
    job_id = ran(database)
    with database.engine.begin() as conn:
        conn.execute(delete(jobs).where(jobs.c.id == job_id))
    return job_id


@breaks("done_without_attempt")
def done_by_nobody(database: Database) -> int:
    job_id = ran(database)
    change_attempts(database, job_id, cause="lost")
    return job_id


@breaks("result_refused")
def accepted_but_failed(database: Database) -> int:
    job_id = ran(database, FAILED)
    change_attempts(database, job_id, cause="done")
    return job_id


@breaks("cancel_outrun")
def done_after_cancel(database: Database) -> int:
    job_id = ran(database)
    change(database, job_id, cancel_requested_at=now())
    return job_id


@breaks("key_slot")
def key_lost(database: Database) -> int:
    job_id = put(database, key="lost")
    change(database, job_id, key_slot=None)
    return job_id


@breaks("key_slot")
def key_kept(database: Database) -> int:
    job_id = ran(database, key="kept")
    change(database, job_id, key_slot="kept")
    return job_id


@breaks("unknown_owner")
def leased_to_nobody(database: Database) -> int:
    job_id = put(database)
    set_off(database, job_id, claimer=BOB)
    return job_id


@breaks("ready", "blocked")
def due_but_must_wait(database: Database) -> int:
    _, job_id = blocked_pair(database)
    change(database, job_id, state="scheduled", run_after=now())
    return job_id


@breaks("charge")
def held_after_the_end(database: Database) -> int:
    job_id = ran(database)
    with database.engine.begin() as conn:
        conn.execute(
            insert(job_charges).values(
                name="gpu",
                group_key="",
                job_id=job_id,
                attempt=1,
                kind="resource",
                period="",
                counted_at=now(),
                amount=1,
                estimate=True,
            )
        )
    return job_id


@breaks("no_time")
def scheduled_for_no_time(database: Database) -> int:
    job_id = put(database, run_after="1h")
    change(database, job_id, run_after=None)
    return job_id


@breaks("lapsed")
def nobody_reclaims(database: Database) -> int:
    job_id = put(database)
    set_off(database, job_id)
    change(database, job_id, lease_expires=long_ago())
    return job_id


@breaks("overdue")
def nobody_promotes(database: Database) -> int:
    job_id = put(database, run_after="1h")
    change(database, job_id, run_after=long_ago())
    return job_id
