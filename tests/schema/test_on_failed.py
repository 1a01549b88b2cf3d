"""`on_failed`: every way into `failed` enqueues the type that is told, in the same transaction, and never for ever."""

from typing import Any

import pytest
from sqlalchemy import select

import sqljobs
from sqljobs.schema.claim import claim
from sqljobs.schema.moves import Fence
from sqljobs.schema.on_failed import TELLS
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.specs import Defaults
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import ALICE, DONE, end, put, row, run, set_off


def told(database: Database) -> list[Any]:
    """The jobs that tell of a failure, oldest first."""
    with database.engine.connect() as conn:
        return list(conn.execute(select(jobs).where(jobs.c.batch.like(f"{TELLS}%")).order_by(jobs.c.id)))


def take_with(database: Database, job_id: int, **options: str) -> Fence:
    """Claim a job where the handlers of these types have these `on_failed`."""

    def options_of(job_type: str) -> Defaults:
        return Defaults(on_failed=options.get(job_type), max_attempts=1)

    (lease,) = database.transaction("claim", lambda tx: claim(tx, ALICE, [job_id], options_of))
    return lease.fence


def test_the_last_attempt_tells_and_no_other(database: Database) -> None:
    job_id = put(database, "t", on_failed="tell", max_attempts=2, group="acme", weight=3, priority=7)
    error = Outcome(Cause.ERROR, error="Traceback\nValueError: no")
    first, second = set_off(database, job_id)[0].fence, None
    end(database, first, error)
    assert told(database) == []
    with database.engine.begin() as conn:
        conn.execute(jobs.update().where(jobs.c.id == job_id).values(state="ready"))
    second = set_off(database, job_id)[0].fence
    end(database, second, error)
    (one,) = told(database)
    assert (one.type, one.state, one.group_key, one.weight, one.priority) == ("tell", "ready", "acme", 3, 7)
    assert one.args == {
        "job_id": job_id,
        "type": "t",
        "group": "acme",
        "cause": "error",
        "error": "Traceback\nValueError: no",
    }


@pytest.mark.parametrize(
    "cause",
    [Cause.ERROR, Cause.EXIT, Cause.SIGNAL, Cause.TIMEOUT, Cause.MEMORY, Cause.LOST, Cause.FAIL, Cause.BAD_RESULT],
)
def test_every_way_into_failed_tells(database: Database, cause: Cause) -> None:
    run(database, put(database, on_failed="tell", max_attempts=1), Outcome(cause))
    (one,) = told(database)
    assert (one.args["cause"], one.args["error"]) == (cause.value, None)


def test_no_other_end_tells(database: Database) -> None:
    for outcome in (DONE, Outcome(Cause.CANCELLED), Outcome(Cause.INTERRUPTED), Outcome(Cause.SNOOZED, after=5.0)):
        run(database, put(database, on_failed="tell"), outcome)
    job_id = put(database, on_failed="tell")
    with database.engine.begin() as conn:
        sqljobs.cancel(conn, job_id)
    run(database, put(database), Outcome(Cause.FAIL))
    assert told(database) == []


def test_a_container_tells_of_its_own_end(database: Database) -> None:
    with database.engine.begin() as conn:
        box = sqljobs.JobSpec("box", container=True, on_failed="tell")
        box_id, bad, good = sqljobs.enqueue_many(
            conn, [box, sqljobs.JobSpec("t", parent=box), sqljobs.JobSpec("t", parent=box)]
        )
    run(database, bad, Outcome(Cause.FAIL, error="no"))
    assert told(database) == []
    run(database, good)
    (one,) = told(database)
    assert one.args["job_id"] == box_id
    assert (one.args["cause"], one.parent_id) == ("children", None)
    assert f"job {bad}" in one.args["error"]


def test_a_job_that_is_retried_and_fails_again_tells_again(database: Database) -> None:
    job_id = put(database, on_failed="tell", max_attempts=1)
    run(database, job_id, Outcome(Cause.FAIL))
    with database.engine.begin() as conn:
        sqljobs.retry(conn, job_id)
    run(database, job_id, Outcome(Cause.FAIL))
    assert [one.args["job_id"] for one in told(database)] == [job_id, job_id]


def test_an_end_that_is_not_written_tells_nothing(database: Database) -> None:
    job_id = put(database, on_failed="tell", max_attempts=1)
    fence = set_off(database, job_id)[0].fence
    assert end(database, fence, Outcome(Cause.FAIL)) is not None
    assert end(database, fence, Outcome(Cause.FAIL)) is None
    assert len(told(database)) == 1


def test_the_handlers_option_holds_where_the_job_has_none(database: Database) -> None:
    by_handler, by_job = put(database, "t"), put(database, "t", on_failed="mine")
    for job_id in (by_handler, by_job):
        end(database, take_with(database, job_id, t="theirs"), Outcome(Cause.FAIL))
    assert [one.type for one in told(database)] == ["theirs", "mine"]
    assert row(database, by_job).on_failed == "mine"


def fail_all(database: Database, **options: str) -> list[str]:
    """Let all that tell fail, one after the other; their types."""
    seen = 0
    while len(found := told(database)) > seen:
        assert seen < 20, "it goes on for ever"
        end(database, take_with(database, found[seen].id, **options), Outcome(Cause.FAIL))
        seen += 1
    return [one.type for one in found]


@pytest.mark.parametrize(
    ("options", "types"),
    [
        ({"t": "tell"}, ["tell"]),
        ({"t": "t"}, ["t"]),
        ({"t": "tell", "tell": "tell"}, ["tell"]),
        ({"t": "tell", "tell": "page"}, ["tell", "page"]),
        ({"t": "tell", "tell": "page", "page": "tell"}, ["tell", "page"]),
        ({"t": "tell", "tell": "t"}, ["tell", "t"]),
    ],
)
def test_what_tells_and_fails_is_told_of_once_by_each_type(
    database: Database, options: dict[str, str], types: list[str]
) -> None:
    end(database, take_with(database, put(database, "t"), **options), Outcome(Cause.FAIL, error="x"))
    assert fail_all(database, **options) == types


def test_where_what_failed_first_is_pruned_nothing_goes_round(database: Database) -> None:
    job_id = put(database, "t")
    options = {"t": "tell", "tell": "page"}
    end(database, take_with(database, job_id, **options), Outcome(Cause.FAIL))
    with database.engine.begin() as conn:
        conn.execute(jobs.delete().where(jobs.c.id == job_id))
    assert fail_all(database, **options) == ["tell"]


def test_any_error_text_can_be_told(database: Database) -> None:
    text = "é" * 10 + "\\x00 <\u2028>" + "x" * 40_000
    run(database, put(database, on_failed="tell", max_attempts=1), Outcome(Cause.ERROR, error=text))
    assert told(database)[0].args["error"] == text
