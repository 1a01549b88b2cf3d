"""`drain`: all that can run, in the open transaction of a test, on every database; nothing is ever committed."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.joined import Joined
from sqljobs.schema.tables import jobs
from sqljobs.testing import drain, enqueued
from tests.schema.audit import audit
from tests.testing import handlers


@pytest.fixture(autouse=True)
def left_as_it_was(engine: Engine, session: Session) -> Iterator[None]:
    """After each test: the rows are sound, no job is current, and nobody else has seen any of it."""
    handlers.ran.clear()
    yield
    assert Joined.to("audit", session).read("audit", audit) == []
    if engine.dialect.name != "sqlite":  # where a reader would not wait, but sees the same
        with Session(engine) as other:
            assert other.scalar(select(func.count()).select_from(jobs)) == 0
    session.close()
    with pytest.raises(sqljobs.NoRunningJob):
        sqljobs.current_job()


def shown(ran: list[sqljobs.JobInfo]) -> list[tuple[str, str, Any]]:
    return [(job.type, job.state, job.result) for job in ran]


def test_a_pipeline_with_members_followers_and_results(session: Session) -> None:
    box = sqljobs.JobSpec("box", container=True)
    first = handlers.add.spec(1).options(parent=box)
    second = handlers.add.spec(2).options(parent=box, after=[first])
    last = handlers.add.spec(10).options(after=[second], after_any=[box])
    cleanup = handlers.add.spec(0).options(after_failed=[last])
    ids = sqljobs.enqueue_many(session, [box, first, second, last, cleanup, handlers.pipeline.spec(2)])
    session.commit()  # of the code under test: a savepoint
    ran = drain(session)
    assert sorted(shown(ran)) == [
        ("t.add", "done", 0),
        ("t.add", "done", 1),
        ("t.add", "done", 1),
        ("t.add", "done", 3),
        ("t.add", "done", 13),
        ("t.add", "done", 101),
        ("t.collect", "done", ["split", 0, 1, 101]),
        ("t.pipeline", "done", "split"),
    ]
    assert [job.id for job in ran if job.id in ids[1:4]] == ids[1:4]
    assert sqljobs.get_job(session, ids[0]).result == {"done": 2, "failed": 0, "cancelled": 0}
    assert sqljobs.get_job(session, ids[4]).reason.code == "not_needed"  # type: ignore[union-attr]
    assert enqueued(session) == []


def test_in_the_order_of_a_supervisor(session: Session) -> None:
    for n, priority, group in ((1, 0, "a"), (2, 5, "a"), (3, 9, "a"), (4, 0, "b"), (5, 0, "b")):
        sqljobs.enqueue(session, handlers.add.spec(n).options(priority=priority, group=group))
    drain(session)
    assert handlers.ran == ["add 3", "add 4", "add 2", "add 5", "add 1"]


def test_time_is_advanced_to_what_is_due(session: Session) -> None:
    sqljobs.enqueue(session, handlers.flaky.spec(good_at=3).options(run_after="40d"))
    later = sqljobs.enqueue(session, handlers.add.spec(1).options(run_after="90d"))
    assert drain(session, advance_time=False) == []
    first, second = drain(session, raise_errors=False)
    assert (first.state, first.result, first.attempt) == ("done", {"before": 2, "first": 1}, 3)
    assert [attempt.cause for attempt in first.attempts] == ["error", "error", "done"]
    assert second.id == later
    assert second.started_at is not None
    assert (second.started_at - second.created_at).days >= 90


def test_an_error_is_raised_when_its_end_is_written(session: Session) -> None:
    job_id = sqljobs.enqueue(session, handlers.flaky.spec())
    with pytest.raises(ConnectionError, match="attempt 1") as raised:
        drain(session)
    assert raised.value.__notes__ == [f"in job {job_id} (t.flaky), attempt 1, run by sqljobs.testing.drain"]
    job = sqljobs.get_job(session, job_id)
    assert (job.state, job.attempts[0].cause) == ("scheduled", "error")
    assert [job.state for job in drain(session)] == ["done"], "the test may go on"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (handlers.bad_result.spec(), sqljobs.InvalidJob),
        (handlers.circle.spec(), sqljobs.InvalidJob),
        (handlers.writer.spec(at_end=True), LookupError),
        (handlers.ends.spec("exit"), SystemExit),
    ],
)
def test_other_faults_are_raised(session: Session, spec: sqljobs.JobSpec, error: type[BaseException]) -> None:
    sqljobs.enqueue(session, spec)
    with pytest.raises(error):
        drain(session)
    assert len(enqueued(session)) in (0, 1)


def test_endings_that_a_handler_chooses_are_not_raised(session: Session) -> None:
    for how in ("retry", "snooze", "fail", "cancel"):
        sqljobs.enqueue(session, handlers.ends.spec(how).options(max_attempts=2))
    ran = drain(session, limit=11)  # the snoozes are of 90 s, the retry is due after 600 s
    assert [job.state for job in ran] == ["failed", "scheduled", "failed", "cancelled"]
    assert [len(job.attempts) for job in ran] == [2, 7, 1, 1]


def test_limits_and_holds_count(session: Session) -> None:
    sqljobs.set_limit(session, "t.usd", budget=1, per="day")
    sqljobs.set_limit(session, "t.calls", rate=2, per="1h")
    sqljobs.set_limit(session, "t.gpu", resource=2)
    for _ in range(3):
        sqljobs.enqueue(session, handlers.spender.spec(taken=2))
    held = sqljobs.enqueue(session, handlers.device.spec())
    sqljobs.hold(session, "job", held)
    ran = drain(session)
    assert [job.result for job in ran] == ["0.5", "0.25", "0"]
    assert [job.spent for job in ran] == [{"t.usd": 0.25, "t.calls": 2}] * 3
    begun = [job.started_at for job in ran]
    assert all(moment is not None for moment in begun)
    assert [job.id for job in enqueued(session, "t.device")] == [held]
    sqljobs.release(session, "job", held)
    assert shown(drain(session)) == [("t.device", "done", {})], "a limit is no device"


def test_what_will_never_have_room_is_not_waited_for(session: Session) -> None:
    sqljobs.set_limit(session, "t.usd", budget=10)
    sqljobs.set_limit(session, "t.calls", budget=1)
    sqljobs.enqueue(session, handlers.spender.spec(taken=2))
    with pytest.raises(sqljobs.LimitTimeout, match=r"no room in the limit 't.calls'"):
        drain(session)
    sqljobs.set_limit(session, "t.usd", budget="0.3")
    assert drain(session) == [], "its estimate is above what the limit has"


def test_devices_are_there(session: Session) -> None:
    sqljobs.enqueue(session, handlers.device.spec())
    assert shown(drain(session)) == [("t.device", "done", {"t.gpu": ["0", "1"]})]


def test_what_is_written_with_a_session_of_the_job(session: Session) -> None:
    sqljobs.enqueue(session, handlers.writer.spec(fails=True))
    (job,) = drain(session, raise_errors=False)
    assert (job.state, job.result, len(job.attempts)) == ("done", [f"t.by-{job.id}"], 2)


def test_at_most_so_many_attempts_and_only_known_types(session: Session) -> None:
    ids = [sqljobs.enqueue(session, handlers.add.spec(n)) for n in range(3)]
    unknown = sqljobs.enqueue(session, "t.unheard", run_after="1h")
    assert [job.id for job in drain(session, limit=2)] == ids[:2]
    assert [job.id for job in enqueued(session, "t.add")] == ids[2:]
    assert [job.id for job in drain(session)] == ids[2:]
    assert [job.id for job in enqueued(session)] == [unknown]
    assert drain(session, limit=0) == []


def test_async_handlers_and_nested_calls(session: Session) -> None:
    sqljobs.enqueue(session, handlers.add_async.spec(2))
    sqljobs.enqueue(session, handlers.nested.spec())
    assert [job.result for job in drain(session)] == [4, ["error", True]]
