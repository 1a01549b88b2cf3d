"""How a child is brought to its end, as a table. Pure: it says what to do and when, and does nothing."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why a child is stopped; all but the last two are what `job.stopping` says."""

    TIMEOUT = "timeout"
    MEMORY = "memory"
    SHUTDOWN = "shutdown"
    CANCEL = "cancel"
    LEASE_LOST = "lease_lost"
    ENDED = "ended"  # its end is written, but the process did not leave
    NOT_REACHED = "not_reached"  # the handler did not start in time: no job is there to be told


class Step(StrEnum):
    """How far the ladder was climbed."""

    RUNNING = "running"
    ASKED = "asked"
    DUMPED = "dumped"
    TERMINATED = "terminated"
    KILLED = "killed"
    GONE = "gone"  # dead and reaped; only now may be freed what it held


class Action(StrEnum):
    """What is done to a child."""

    ASK = "ask"  # `job.stopping` says the reason
    DUMP = "dump"  # it writes the stacks of its threads
    TERMINATE = "SIGTERM"  # to its process group
    KILL = "SIGKILL"  # to its process group, and to all that it has started

    @property
    def signal(self) -> signal.Signals | None:
        """What its process group is sent."""
        return signal.Signals[self.value] if self in (Action.TERMINATE, Action.KILL) else None


@dataclass(frozen=True)
class Rung:
    """`step` is reached, and `action` is due, when this share of `kill_grace` has passed since the ladder began."""

    step: Step
    share: float
    action: Action


LADDER = (
    Rung(Step.ASKED, 0.0, Action.ASK),
    Rung(Step.DUMPED, 0.0, Action.DUMP),
    Rung(Step.TERMINATED, 0.5, Action.TERMINATE),
    Rung(Step.KILLED, 1.0, Action.KILL),
)


@dataclass(frozen=True)
class Ladder:
    """Where one child stands. `since`: when its end was asked for, in seconds of the caller's clock.

    `at_once`: nothing but SIGKILL is due, then."""

    step: Step = Step.RUNNING
    reason: Reason | None = None
    since: float = 0.0
    at_once: bool = False


def stop(ladder: Ladder, reason: Reason, now: float, *, at_once: bool = False) -> Ladder:
    """Begin to climb. The first reason stays: it is why the process ends, and the grace is not given twice; but with
    `at_once` what is left of it is over."""
    if ladder.reason is None:
        return replace(ladder, reason=reason, since=now, at_once=at_once)
    return replace(ladder, since=min(now, ladder.since), at_once=True) if at_once else ladder


def reaped(ladder: Ladder) -> Ladder:
    """The child is dead and was waited for."""
    return replace(ladder, step=Step.GONE)


def next_actions(ladder: Ladder, now: float, kill_grace: float) -> tuple[Ladder, tuple[Action, ...]]:
    """What to do now, in this order, and the ladder after it; nothing while nothing is due.

    `kill_grace`: seconds for the whole ladder; 0 kills at once. A caller that comes late does all that it has missed,
    but when SIGKILL is due nothing else, so that the whole never takes longer than promised."""
    due = [rung for rung in _above(ladder) if _due_at(ladder, rung, kill_grace) <= now]
    if not due:
        return ladder, ()
    actions = tuple(rung.action for rung in due)
    return replace(ladder, step=due[-1].step), actions[-1:] if Action.KILL in actions else actions


def next_due(ladder: Ladder, kill_grace: float) -> float | None:
    """When `next_actions` has something to do, on the caller's clock; None: nothing will come by time alone."""
    above = _above(ladder)
    return _due_at(ladder, above[0], kill_grace) if above else None


def _above(ladder: Ladder) -> tuple[Rung, ...]:
    if ladder.reason is None or ladder.step is Step.GONE:
        return ()
    steps = [rung.step for rung in LADDER]
    return LADDER[steps.index(ladder.step) + 1 if ladder.step in steps else 0 :]


def _due_at(ladder: Ladder, rung: Rung, kill_grace: float) -> float:
    return ladder.since + (0.0 if ladder.at_once else rung.share * kill_grace)


class Taken(NamedTuple):
    """What was done to an attempt, and why it is being stopped."""

    job_id: int
    attempt: int
    reason: Reason | None
    action: Action
