"""How an attempt ended, and what follows from it. Pure: no database, time and randomness passed in."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from sqljobs.schema.columns import JsonText
from sqljobs.schema.durations import MAX_AFTER, parse_duration
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.states import Event, State

INTERRUPTIONS_IN_A_ROW = 5


class Cause(StrEnum):
    """Why an attempt ended (contract: the table of causes)."""

    DONE = "done"
    ERROR = "error"
    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    LOST = "lost"
    BAD_RESULT = "bad_result"
    BAD_ARGS = "bad_args"
    FAIL = "fail"
    INTERRUPTED = "interrupted"
    LEASE_LOST = "lease_lost"
    SNOOZED = "snoozed"
    CANCELLED = "cancelled"


RETRIED = frozenset({Cause.ERROR, Cause.EXIT, Cause.SIGNAL, Cause.TIMEOUT, Cause.MEMORY, Cause.LOST})
FATAL = frozenset({Cause.BAD_RESULT, Cause.BAD_ARGS, Cause.FAIL})
NOT_CHARGED = frozenset({Cause.INTERRUPTED, Cause.LEASE_LOST, Cause.SNOOZED})


@dataclass(frozen=True)
class Outcome:
    """What the child, or the supervisor in its stead, says of one attempt.

    `after`: seconds until the next attempt where the handler named them. `fatal`: the handler's `fail_on` holds.
    `deploy`: an interruption by a shutdown, which never counts. `died`: its process did not write the end itself."""

    cause: Cause
    result: JsonText | None = None
    error: str | None = None
    reason: str | None = None
    after: float | None = None
    fatal: bool = False
    deploy: bool = False
    died: bool = False


@dataclass(frozen=True)
class Backoff:
    """Exponential backoff in seconds with full jitter and a cap.

    Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015."""

    first: float = 2.0
    cap: float = 3600.0

    def delay(self, used: int, rng: random.Random) -> float:
        """Seconds to wait after `used` attempts were used up (at least 1)."""
        # 2**64 is beyond any cap; the bound keeps a huge `used` from overflowing the float.
        ceiling = min(self.cap, self.first * 2.0 ** min(used - 1, 64))
        return rng.uniform(0.0, ceiling)


def exponential(first: float | str = 2, cap: float | str = 3600) -> Backoff:
    """Backoff that starts at `first` seconds and doubles up to `cap` seconds. Raises `InvalidJob` for bad values."""
    backoff = Backoff(parse_duration(first), parse_duration(cap))
    if backoff.first <= 0 or backoff.cap < backoff.first:
        raise InvalidJob(f"exponential(first={first!r}, cap={cap!r}): first must be above 0 and not above cap")
    return backoff


@dataclass(frozen=True)
class Standing:
    """The counters of a job while one attempt is in flight."""

    attempt: int
    max_attempts: int
    first_max_attempts: int
    cancel_requested: bool = False
    interruptions: int = 0  # in a row, this one not counted

    @property
    def used(self) -> int:
        """Attempts used up since the job was enqueued or last retried by an operator, this one included."""
        return max(1, self.first_max_attempts - (self.max_attempts - self.attempt))


@dataclass(frozen=True)
class Decision:
    """What to write: the cause to record, the event and next state, what `max_attempts` becomes, seconds to wait."""

    cause: Cause
    event: Event
    state: State
    max_attempts: int
    delay: float | None = None


def decide(outcome: Outcome, standing: Standing, backoff: Backoff, rng: random.Random) -> Decision:
    """The one place that says what follows an attempt's end."""
    cause = outcome.cause
    if standing.cancel_requested:
        cause = Cause.CANCELLED
    elif cause is Cause.INTERRUPTED and not outcome.deploy and standing.interruptions >= INTERRUPTIONS_IN_A_ROW:
        cause = Cause.ERROR
    limit = standing.max_attempts
    if cause is Cause.CANCELLED:
        return Decision(cause, Event.CANCEL, State.CANCELLED, limit)
    if cause is Cause.DONE:
        return Decision(cause, Event.SUCCEED, State.DONE, limit)
    if cause is Cause.SNOOZED:
        return Decision(cause, Event.SNOOZE, State.SCHEDULED, limit + 1, min(outcome.after or 0.0, MAX_AFTER))
    if cause in NOT_CHARGED:
        return Decision(cause, Event.RELEASE, State.READY, limit + 1)
    event = Event.RECLAIM if cause is Cause.LOST else Event.FAIL
    if cause in FATAL or outcome.fatal or standing.attempt >= limit:
        return Decision(cause, event, State.FAILED, limit)
    delay = backoff.delay(standing.used, rng) if outcome.after is None else outcome.after
    # Later than the calendar goes would fail the write of a good end.
    return Decision(cause, event, State.SCHEDULED, limit, min(delay, MAX_AFTER))
