"""`run_inline`: a handler without a database and without a process, and the end that the real one would write."""

import asyncio
import dataclasses
from typing import Any

import pytest
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.joined import Joined
from sqljobs.schema.limits_list import list_limits
from sqljobs.testing import Outcome, drain, enqueued, run_inline
from tests.testing import handlers
from tests.testing.handlers import Size


@pytest.fixture(autouse=True)
def no_job_before_and_after() -> Any:
    yield
    with pytest.raises(sqljobs.NoRunningJob):
        sqljobs.current_job()


def test_arguments_and_result_make_the_trip_through_json() -> None:
    outcome = run_inline(handlers.resize.spec("a/b.jpg", Size(3, 4)))  # type: ignore[arg-type] # text becomes a Path
    assert outcome == Outcome(
        state="done",
        cause="done",
        result={"path": "a/b.png", "pixels": 12, "sizes": [1, 2]},
        error=None,
        progress=outcome.progress,
        checkpoint={"at": "2026-11-30T00:00:00+00:00"},
        spent={},
        enqueued=(),
    )
    assert outcome.progress is not None
    assert (outcome.progress.done, outcome.progress.total, outcome.progress.note) == (1, 2, "half")


@pytest.mark.parametrize(
    ("args", "told"),
    [({"path": "x"}, "argument 'size' is missing"), ({"path": 3, "size": {}}, "args.path"), (None, "missing")],
)
def test_bad_arguments_end_the_attempt(args: dict[str, Any] | None, told: str) -> None:
    outcome = run_inline(sqljobs.JobSpec("t.resize", args))
    assert (outcome.state, outcome.cause) == ("failed", "bad_args")
    assert told in (outcome.error or "")


ENDS = handlers.ends.spec
CASES: list[tuple[sqljobs.JobSpec, str, str]] = [
    (handlers.add.spec(3), "done", "done"),
    (handlers.add_async.spec(3), "done", "done"),
    (ENDS("error"), "scheduled", "error"),
    (ENDS("retry"), "scheduled", "error"),
    (ENDS("retry_backoff"), "scheduled", "error"),
    (ENDS("exit"), "scheduled", "error"),
    (ENDS("interrupt"), "scheduled", "error"),
    (ENDS("snooze"), "scheduled", "snoozed"),
    (ENDS("fail"), "failed", "fail"),
    (ENDS("cancel"), "cancelled", "cancelled"),
    (ENDS("error").options(max_attempts=1), "failed", "error"),
    (ENDS("snooze").options(max_attempts=1), "scheduled", "snoozed"),
    (handlers.strict.spec(), "failed", "error"),
    (handlers.bad_result.spec(), "failed", "bad_result"),
    (sqljobs.JobSpec("t.add", {"m": 1}), "failed", "bad_args"),
    (handlers.pipeline.spec(2), "waiting", "done"),
    (handlers.circle.spec(), "scheduled", "error"),
    (handlers.flaky.spec(), "scheduled", "error"),
    (handlers.writer.spec(fails=True), "scheduled", "error"),
    (handlers.writer.spec(), "done", "done"),
    (handlers.writer.spec(at_end=True), "scheduled", "error"),
]


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(("spec", "state", "cause"), CASES)
def test_the_end_is_what_the_real_one_would_be(session: Session, spec: sqljobs.JobSpec, state: str, cause: str) -> None:
    """The same handler once in memory, and once as a row."""
    outcome = run_inline(spec, session=session)
    assert (outcome.state, outcome.cause) == (state, cause)
    # Where its arguments are bad the door would say so already: another process, that has no handlers, enqueues it.
    job_id = sqljobs.enqueue(session, sqljobs.JobSpec("t.add", **spec.given) if cause == "bad_args" else spec)
    if cause == "bad_args":
        session.execute(sqljobs.Job.__table__.update().values(args={"m": 1}))  # type: ignore[attr-defined]
    (job,) = drain(session, limit=1, raise_errors=False)
    assert job.id == job_id
    told = [one.type for one in sorted(enqueued(session), key=lambda one: one.id) if one.id != job_id]
    if outcome.state == "scheduled" and job.state == "ready":  # its backoff, which begins at 0 s, is over already
        job = dataclasses.replace(job, state="scheduled")
    assert (job.state, job.attempts[0].cause, job.result) == (outcome.state, outcome.cause, outcome.result)
    assert told == [one.type for one in outcome.enqueued]
    assert (job.error or "").splitlines()[-1:] == (outcome.error or "").splitlines()[-1:]


def test_the_last_attempt_fails() -> None:
    states = [run_inline(handlers.ends.spec("error"), attempt=attempt).state for attempt in (1, 2, 3)]
    assert states == ["scheduled", "failed", "failed"]


def test_what_an_earlier_attempt_has_left() -> None:
    outcome = run_inline(handlers.flaky.spec(), attempt=2, checkpoint=(1, 2))
    assert (outcome.state, outcome.result, outcome.checkpoint) == ("done", {"before": [1, 2], "first": 2}, 2)


@pytest.mark.parametrize("verb", ["spawn", "enqueue"])
def test_what_is_written_with_the_end_is_refused_while_it_is_written(session: Session, verb: str) -> None:
    outcome = run_inline(handlers.too_late.spec(verb=verb), session=session)
    assert (outcome.cause, outcome.enqueued) == ("error", ())
    assert f"job.{verb} cannot be called within finalize_with" in (outcome.error or "")


def test_units_of_devices() -> None:
    assert run_inline(handlers.on_units.spec(), devices={"gpu": ["0", "3"]}).result == ["0", "3"]


def test_upstream_and_stopping() -> None:
    upstream = [sqljobs.Upstream(7, "t.add", result=(1, 2)), sqljobs.Upstream(8, "t.add", state="failed")]
    outcome = run_inline(handlers.asks.spec(), upstream=upstream, stopping="timeout", checkpoint=3, attempt=2)
    assert outcome.result == {
        "stopping": "timeout",
        "attempt": 2,
        "last": 3,
        "upstream": [[7, "t.add", "done", [1, 2]], [8, "t.add", "failed", None]],
    }
    assert run_inline(handlers.asks.spec(), stopping="cancel").state == "cancelled"
    assert run_inline(handlers.asks.spec(), stopping="shutdown").cause == "error"
    stopped = [run_inline(handlers.asks.spec(), stopping=reason) for reason in ("memory", "lease_lost")]
    assert [(one.state, one.cause) for one in stopped] == [("scheduled", "memory"), ("ready", "lease_lost")]


def test_what_is_spent_and_taken_is_counted_and_has_no_end() -> None:
    outcome = run_inline(handlers.spender.spec(taken=3))
    assert (outcome.spent, outcome.result) == ({"t.usd": 0.25, "t.calls": 3}, "Infinity")


def test_what_a_handler_enqueues_is_told() -> None:
    outcome = run_inline(handlers.pipeline.spec(2))
    assert [(one.type, one.args) for one in outcome.enqueued] == [
        ("t.add", {"n": 0}),
        ("t.add", {"n": 1}),
        ("t.add", {"n": 100}),
        ("t.collect", None),
    ]


def test_one_within_another() -> None:
    assert run_inline(handlers.nested.spec()).result == ["error", True]


def test_within_the_loop_of_an_async_test() -> None:
    async def test() -> Outcome:
        return run_inline(handlers.add_async.spec(4))

    assert asyncio.run(test()).result == 8


def test_a_session_that_is_wanted_must_be_given() -> None:
    with pytest.raises(sqljobs.InvalidJob, match=r"step 'write' needs a session.*session=\.\.\."):
        run_inline(handlers.writer.spec())


def test_what_is_written_with_a_session_is_in_the_tests_transaction(session: Session) -> None:
    def limits() -> list[str]:
        return [one["name"] for one in Joined.to("limits", session).read("limits", list_limits)]

    assert run_inline(handlers.writer.spec(at_end=True), session=session).cause == "error"
    assert limits() == ["t.by-1"], "the step has been written, what raised was not"
    assert run_inline(handlers.writer.spec(), session=session).result == ["t.by-1"]
    session.rollback()
    assert limits() == []


@pytest.mark.parametrize(
    ("spec", "options", "told"),
    [
        (sqljobs.JobSpec("t.unheard"), {}, "no handler 't.unheard' is known here: import the module"),
        (sqljobs.JobSpec("t.add", container=True), {}, "container 't.add' never runs"),
        (sqljobs.JobSpec("t.add", weight=0), {}, "weight"),
        (sqljobs.JobSpec("t.add"), {"stopping": "soon"}, "stopping must be one of cancel, timeout"),
        (sqljobs.JobSpec("t.add"), {"attempt": 0}, "attempt must be"),
        (sqljobs.JobSpec("t.add"), {"checkpoint": object()}, "checkpoint"),
    ],
)
def test_what_could_not_be_is_refused(spec: sqljobs.JobSpec, options: dict[str, Any], told: str) -> None:
    with pytest.raises(sqljobs.InvalidJob, match=told):
        run_inline(spec, **options)


def test_what_fails_a_test_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(handlers.ENDINGS, "error", lambda: pytest.fail("not this one"))
    with pytest.raises(pytest.fail.Exception, match="not this one"):
        run_inline(handlers.ends.spec("error"))
