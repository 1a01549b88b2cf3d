"""How a child is brought to its end, as a table. Pure: it says what to send and when, and sends nothing.

A step is a row of `LADDER`; a further one (ask, dump the stacks, SIGTERM at half) is another row."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why a child is stopped; all but the last two are what `job.stopping` says."""

    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    CANCEL = "cancel"
    LEASE_LOST = "lease_lost"
    ENDED = "ended"  # its end is written, but the process did not leave
    NOT_REACHED = "not_reached"  # the handler did not start in time: no job is there to be told


class Step(StrEnum):
    """How far the ladder was climbed."""

    RUNNING = "running"
    TERMINATED = "terminated"
    KILLED = "killed"
    GONE = "gone"  # dead and reaped; only now may be freed what it held


@dataclass(frozen=True)
class Action:
    """A signal for the child's process group."""

    signal: signal.Signals


@dataclass(frozen=True)
class Rung:
    """`step` is reached, and `action` is due, when this share of `kill_grace` has passed since the ladder began."""

    step: Step
    share: float
    action: Action


LADDER = (
    Rung(Step.TERMINATED, 0.0, Action(signal.SIGTERM)),
    Rung(Step.KILLED, 1.0, Action(signal.SIGKILL)),
)


@dataclass(frozen=True)
class Ladder:
    """Where one child stands. `since`: when its end was asked for, in seconds of the caller's clock."""

    step: Step = Step.RUNNING
    reason: Reason | None = None
    since: float = 0.0


def stop(ladder: Ladder, reason: Reason, now: float) -> Ladder:
    """Begin to climb. The first reason stays: it is why the process ends, and the grace is not given twice."""
    return ladder if ladder.reason is not None else replace(ladder, reason=reason, since=now)


def reaped(ladder: Ladder) -> Ladder:
    """The child is dead and was waited for."""
    return replace(ladder, step=Step.GONE)


def next_action(ladder: Ladder, now: float, kill_grace: float) -> tuple[Ladder, Action | None]:
    """What to do now, and the ladder after it; no action while nothing is due.

    `kill_grace`: seconds for the whole ladder; 0 kills at once. A caller that comes late gets the highest step
    due, so that the whole never takes longer than promised."""
    due = [rung for rung in _above(ladder) if ladder.since + rung.share * kill_grace <= now]
    if not due:
        return ladder, None
    return replace(ladder, step=due[-1].step), due[-1].action


def next_due(ladder: Ladder, kill_grace: float) -> float | None:
    """When `next_action` has something to do, on the caller's clock; None: nothing will come by time alone."""
    above = _above(ladder)
    return ladder.since + above[0].share * kill_grace if above else None


def _above(ladder: Ladder) -> tuple[Rung, ...]:
    if ladder.reason is None or ladder.step is Step.GONE:
        return ()
    steps = [rung.step for rung in LADDER]
    return LADDER[steps.index(ladder.step) + 1 if ladder.step in steps else 0 :]


class Stopping(NamedTuple):
    """A signal that was sent to an attempt, and why it is being stopped."""

    job_id: int
    attempt: int
    reason: Reason | None
    signal: signal.Signals
