"""Rules of the dependency graph: what ends make of edges, of followers and of containers. Pure: no database."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from sqljobs.schema.states import FINAL, State

KINDS = {"after": "ok", "after_any": "any", "after_failed": "not_ok"}  # option -> kind, in the order of job.upstream
NOT_NEEDED = "not_needed"


class Edge(Enum):
    """What an upstream's state makes of one edge."""

    OPEN = "open"
    SATISFIED = "satisfied"
    BROKEN = "broken"


def edge_of(kind: str, upstream: str, reason: str | None) -> Edge:
    """The edge's standing: `ok` wants its upstream done (one that was not needed counts), the others want it ended.

    Of a job's `not_ok` edges one at least must have a bad end besides: that is no matter of a single edge."""
    state = State(upstream)
    if state not in FINAL:
        return Edge.OPEN
    return Edge.SATISFIED if kind != "ok" or is_good(upstream, reason) else Edge.BROKEN


def is_good(state: str, reason: str | None) -> bool:
    """Whether an end counts as success: done, or not needed."""
    return state == State.DONE.value or reason == NOT_NEEDED


def closing_text(reason: str | None, culprit: int | None) -> str | None:
    """What is shown of a job that its upstreams have ended."""
    if reason is None:
        return None
    return "none of the jobs that it is there for ended badly" if culprit is None else f"job {culprit} did not end well"


class Children(NamedTuple):
    """A container's members by how they stand; those that were not needed are among the cancelled."""

    open: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    not_needed: int = 0

    def with_end(self, state: str, reason: str | None) -> Children:
        """One that was open has ended so."""
        return self._moved(state, reason, -1, 1)

    def without_end(self, state: str, reason: str | None) -> Children:
        """One that had ended so is open again."""
        return self._moved(state, reason, 1, -1)

    def plus(self, other: Children, times: int = 1) -> Children:
        """With so many of `other` added."""
        return Children(*(mine + times * theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.cancelled

    def _moved(self, state: str, reason: str | None, opened: int, ended: int) -> Children:
        return Children(
            self.open + opened,
            self.done + ended * (state == State.DONE.value),
            self.failed + ended * (state == State.FAILED.value),
            self.cancelled + ended * (state == State.CANCELLED.value),
            self.not_needed + ended * (reason == NOT_NEEDED),
        )

    def end(self, *, cancel_requested: bool) -> State:
        """How their container ends when none is open any more."""
        if self.failed:
            return State.FAILED
        return State.CANCELLED if self.cancelled > self.not_needed or cancel_requested else State.DONE
