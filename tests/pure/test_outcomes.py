"""What follows an attempt's end: the contract's table of causes, and what holds after any sequence of them."""

import random
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.durations import MAX_AFTER
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.outcomes import Backoff, Cause, Decision, Outcome, Standing, decide, exponential
from sqljobs.schema.states import FINAL, State, transition

RETRIED = {Cause.ERROR, Cause.EXIT, Cause.SIGNAL, Cause.TIMEOUT, Cause.MEMORY, Cause.LOST}
FATAL = {Cause.BAD_RESULT, Cause.BAD_ARGS, Cause.FAIL}
FREE = {Cause.INTERRUPTED, Cause.LEASE_LOST, Cause.SNOOZED}
few = settings(deadline=None, max_examples=40)
waits = st.none() | st.floats(0, 1e300)
outcomes = st.builds(Outcome, st.sampled_from(Cause), after=waits, fatal=st.booleans(), deploy=st.booleans())
standings = st.integers(1, 9).flatmap(
    lambda attempt: st.builds(
        Standing,
        attempt=st.just(attempt),
        max_attempts=st.integers(attempt, 12),
        first_max_attempts=st.integers(1, 5),
        cancel_requested=st.booleans(),
        interruptions=st.integers(0, 7),
    )
)


def decided(outcome: Outcome, standing: Standing, backoff: Backoff | None = None) -> Decision:
    return decide(outcome, standing, backoff or Backoff(), random.Random(1))


@pytest.mark.parametrize(
    ("cause", "event", "state", "at_the_maximum", "limit"),
    [
        ("done", "succeed", "done", "done", 3),
        ("error", "fail", "scheduled", "failed", 3),
        ("exit", "fail", "scheduled", "failed", 3),
        ("signal", "fail", "scheduled", "failed", 3),
        ("timeout", "fail", "scheduled", "failed", 3),
        ("memory", "fail", "scheduled", "failed", 3),
        ("lost", "reclaim", "scheduled", "failed", 3),
        ("bad_result", "fail", "failed", "failed", 3),
        ("bad_args", "fail", "failed", "failed", 3),
        ("fail", "fail", "failed", "failed", 3),
        ("interrupted", "release", "ready", "ready", 4),
        ("lease_lost", "release", "ready", "ready", 4),
        ("snoozed", "snooze", "scheduled", "scheduled", 4),
        ("cancelled", "cancel", "cancelled", "cancelled", 3),
    ],
)
def test_table_of_causes(cause: str, event: str, state: str, at_the_maximum: str, limit: int) -> None:
    for attempt, expected in ((1, state), (3, at_the_maximum)):
        made = decided(Outcome(Cause(cause), after=7.0), Standing(attempt, 3, 3))
        assert (made.cause, made.event, made.state, made.max_attempts) == (cause, event, expected, limit)
        assert made.delay == (7.0 if expected == "scheduled" else None)


@few
@given(outcome=outcomes, standing=standings)
def test_every_decision_is_in_the_table_of_transitions(outcome: Outcome, standing: Standing) -> None:
    made = decided(outcome, standing)
    assert made.state in transition(made.event, made.state).targets
    assert (made.delay is not None) == (made.state is State.SCHEDULED)
    free = made.cause in FREE
    assert made.max_attempts == standing.max_attempts + free
    if free or made.state is State.SCHEDULED:
        assert standing.attempt + 1 <= made.max_attempts  # so that it can be claimed again


@few
@given(outcome=outcomes, standing=standings)
def test_a_cancel_request_wins_over_everything(outcome: Outcome, standing: Standing) -> None:
    made = decided(outcome, standing)
    if standing.cancel_requested:
        assert (made.cause, made.state) == (Cause.CANCELLED, State.CANCELLED)
    elif outcome.cause is not Cause.INTERRUPTED:
        assert made.cause is outcome.cause


@few
@given(cause=st.sampled_from(sorted(RETRIED | FATAL)), attempt=st.integers(1, 5))
def test_fail_on_is_never_retried(cause: Cause, attempt: int) -> None:
    made = decided(Outcome(cause, fatal=True, after=1.0), Standing(attempt, 5, 5))
    assert (made.cause, made.state, made.max_attempts) == (cause, State.FAILED, 5)


@few
@given(first=st.integers(1, 4), ends=st.lists(st.tuples(outcomes, st.booleans()), max_size=40))
def test_no_sequence_of_ends_takes_attempt_above_its_maximum(first: int, ends: list[tuple[Outcome, bool]]) -> None:
    limit, charged, row = first, 0, 0
    for attempt, (outcome, operator_retries) in enumerate(ends, 1):  # each begins with a claim
        assert attempt <= limit
        made = decided(outcome, Standing(attempt, limit, first, interruptions=row))
        row = row + 1 if made.cause is Cause.INTERRUPTED else 0
        limit = made.max_attempts
        charged += made.cause in RETRIED | FATAL
        assert attempt <= limit
        assert charged <= first
        if made.state is State.FAILED:
            assert charged == first or outcome.fatal or made.cause in FATAL
        if made.state in FINAL:
            if made.state is State.DONE or not operator_retries:
                return
            limit, charged = attempt + first, 0


@few
@given(ends=st.lists(st.sampled_from(["free", "charged"]), max_size=30), retried_at=st.integers(0, 10))
def test_used_counts_what_was_used_up_since_the_last_retry(ends: list[str], retried_at: int) -> None:
    first = 50
    attempt, limit, used = retried_at, retried_at + first, 0
    for end in ends:
        attempt += 1
        assert Standing(attempt, limit, first).used == used + 1
        used += end == "charged"
        limit += end == "free"


@pytest.mark.parametrize("deploy", [False, True])
def test_the_sixth_interruption_in_a_row_is_an_error_unless_it_is_a_deploy(deploy: bool) -> None:
    causes = [
        decided(Outcome(Cause.INTERRUPTED, deploy=deploy), Standing(8, 9, 3, interruptions=before)).cause
        for before in range(8)
    ]
    later = Cause.INTERRUPTED if deploy else Cause.ERROR
    assert causes == [Cause.INTERRUPTED] * 5 + [later] * 3
    last = decided(Outcome(Cause.INTERRUPTED, deploy=deploy), Standing(9, 9, 3, interruptions=5))
    assert (last.state, last.max_attempts) == ((State.READY, 10) if deploy else (State.FAILED, 9))


@few
@given(first=st.floats(0.001, 1e4), factor=st.floats(1, 1e6), used=st.integers(1, 40), seed=st.integers())
def test_full_jitter_stays_below_its_ceiling(first: float, factor: float, used: int, seed: int) -> None:
    backoff = Backoff(first, first * factor)
    assert 0 <= backoff.delay(used, random.Random(seed)) <= min(backoff.cap, first * 2 ** (used - 1))


def test_full_jitter_fills_its_range() -> None:
    rng = random.Random(20261129)
    delays = [Backoff(2, 3600).delay(4, rng) for _ in range(400)]
    assert min(delays) < 1
    assert max(delays) > 15
    assert 7 < sum(delays) / len(delays) < 9


@few
@given(used=st.integers(1, 10**30), cap=st.floats(1, 1e308))
def test_a_huge_count_overflows_nothing(used: int, cap: float) -> None:
    assert 0 <= Backoff(1, cap).delay(used, random.Random(used)) <= cap


@few
@given(cause=st.sampled_from(sorted(RETRIED | {Cause.SNOOZED})), after=waits, cap=st.floats(1, 1e308))
def test_a_wait_beyond_the_calendar_is_cut(cause: Cause, after: float | None, cap: float) -> None:
    made = decided(Outcome(cause, after=after), Standing(1, 5000, 5000), Backoff(cap, cap))
    assert made.delay is not None
    assert timedelta(0) <= timedelta(seconds=made.delay) <= timedelta(seconds=MAX_AFTER)


def test_backoff_uses_what_was_used_up_and_not_the_attempt() -> None:
    after_many_snoozes = Standing(attempt=41, max_attempts=43, first_max_attempts=3)
    rng = random.Random(3)
    delays = [decide(Outcome(Cause.ERROR), after_many_snoozes, Backoff(2, 3600), rng).delay or 0 for _ in range(200)]
    assert 1.5 < max(delays) <= 2


def test_exponential_reads_durations() -> None:
    assert exponential() == Backoff(2.0, 3600.0) == Backoff()
    assert exponential(first="500ms", cap="1.5m") == Backoff(0.5, 90.0)
    assert exponential(first=3, cap=3) == Backoff(3.0, 3.0)


@pytest.mark.parametrize(("first", "cap"), [(0, 1), (2, 1), (-1, 1), ("soon", 1), (1, "late"), (float("nan"), 1)])
def test_exponential_refuses_what_cannot_be(first: float | str, cap: float | str) -> None:
    with pytest.raises(InvalidJob, match=r"^[^\n]+$"):
        exponential(first, cap)
