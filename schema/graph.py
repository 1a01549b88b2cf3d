"""Order and rules of the dependency graph. Pure: no database."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from sqljobs.schema.errors import CycleError
from sqljobs.schema.states import FINAL, State

CIRCLE_ENDS = 5  # names shown at either end of a long circle


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


def in_order(upstreams: Sequence[Sequence[int]], names: Sequence[str]) -> list[int]:
    """Positions 0..n-1, each after all of its `upstreams`, else in input order (Kahn, CACM 1962).

    Raises `CycleError`, naming one circle by `names`."""
    waiting_for = [len(set(positions)) for positions in upstreams]
    dependents: list[list[int]] = [[] for _ in upstreams]
    for position, ups in enumerate(upstreams):
        for up in set(ups):
            dependents[up].append(position)
    order = [position for position, count in enumerate(waiting_for) if count == 0]
    for position in order:  # grows while we walk it
        for dependent in dependents[position]:
            waiting_for[dependent] -= 1
            if waiting_for[dependent] == 0:
                order.append(dependent)
    if len(order) < len(upstreams):
        circle = _circle(upstreams, set(range(len(upstreams))) - set(order))
        raise CycleError("these jobs wait for each other: " + " -> ".join(_shortened([names[at] for at in circle])))
    return order


def _shortened(names: list[str]) -> list[str]:
    left_out = len(names) - 2 * CIRCLE_ENDS
    return names if left_out <= 1 else [*names[:CIRCLE_ENDS], f"{left_out} more", *names[-CIRCLE_ENDS:]]


def _circle(upstreams: Sequence[Sequence[int]], stuck: set[int]) -> list[int]:
    position = min(stuck)
    path: dict[int, None] = {}  # ordered, and quick to ask
    while position not in path:
        path[position] = None
        position = next(up for up in upstreams[position] if up in stuck)
    walked = list(path)
    return [*walked[walked.index(position) :], position]
