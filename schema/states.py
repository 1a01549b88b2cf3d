"""The job state machine, as one table. Pure; every change of `jobs.state` is one of these rows."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """Where a job stands. The last three are final."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    READY = "ready"
    LEASED = "leased"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({State.DONE, State.FAILED, State.CANCELLED})
OPEN = frozenset(State) - FINAL
IN_FLIGHT = frozenset({State.LEASED, State.RUNNING})
UNCLAIMED = frozenset({State.BLOCKED, State.SCHEDULED, State.READY})


class Event(StrEnum):
    """What happens to a job."""

    ENQUEUE = "enqueue"
    UNBLOCK = "unblock"
    DOOM = "doom"
    DUE = "due"
    CLAIM = "claim"
    START = "start"
    SUCCEED = "succeed"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    RECLAIM = "reclaim"
    ROLL_UP = "roll_up"
    CANCEL = "cancel"
    RETRY = "retry"
    REOPEN = "reopen"
    SKIP = "skip"


class Transition(NamedTuple):
    """One row of the table: `event` takes a job from any of `sources` to one of `targets`."""

    event: Event
    sources: frozenset[State]
    targets: frozenset[State]
    made_by: str


def _row(event: Event, sources: str, targets: str, made_by: str) -> Transition:
    def parse(text: str) -> frozenset[State]:
        return frozenset(State(word) for word in text.split("|") if word)

    return Transition(event, parse(sources), parse(targets), made_by)


TRANSITIONS: tuple[Transition, ...] = (
    _row(Event.ENQUEUE, "", "blocked|scheduled|ready|waiting|cancelled", "enqueue"),
    _row(Event.UNBLOCK, "blocked", "scheduled|ready|waiting", "an upstream's end"),
    _row(Event.DOOM, "blocked", "cancelled", "an upstream's end"),
    _row(Event.DUE, "scheduled", "ready", "supervisor"),
    _row(Event.CLAIM, "ready", "leased", "supervisor"),
    _row(Event.START, "leased", "running", "child"),
    _row(Event.SUCCEED, "running", "done|waiting", "child"),
    _row(Event.FAIL, "leased|running", "scheduled|ready|failed", "child, or supervisor after a crash"),
    _row(Event.SNOOZE, "running", "scheduled|ready", "child"),
    _row(Event.RELEASE, "leased|running", "ready|scheduled", "supervisor"),
    _row(Event.RECLAIM, "leased|running", "scheduled|ready|failed|cancelled", "any supervisor"),
    _row(Event.ROLL_UP, "waiting", "done|failed|cancelled", "the last child's end"),
    _row(
        Event.CANCEL,
        "blocked|scheduled|ready|leased|running|waiting",
        "cancelled",
        "operator, or the job itself",
    ),
    _row(Event.RETRY, "failed|cancelled", "blocked|waiting", "operator"),
    _row(Event.REOPEN, "failed|cancelled|ready|scheduled", "blocked|waiting", "retry or skip of a neighbour"),
    _row(Event.SKIP, "failed", "done", "operator"),
)

_BY_EVENT = {row.event: row for row in TRANSITIONS}


class IllegalMove(Exception):
    """The code asked for a transition that the table does not hold: a fault of ours."""


def transition(event: Event, target: State) -> Transition:
    """The row of `event`, checked to lead to `target`.

    Raises `IllegalMove` when it does not."""
    row = _BY_EVENT[event]
    if target not in row.targets:
        raise IllegalMove(f"{event} cannot lead to {target}")
    return row


def diagram() -> str:
    """The table as a Mermaid state diagram, for ARCHITECTURE.md (a test fails on drift)."""
    lines = ["stateDiagram-v2"]
    for row in TRANSITIONS:
        sources = [state.value for state in State if state in row.sources] or ["[*]"]
        lines += [
            f"    {source} --> {target}: {row.event}" for source in sources for target in State if target in row.targets
        ]
    lines += [f"    {state} --> [*]" for state in State if state in FINAL]
    return "\n".join(lines) + "\n"
