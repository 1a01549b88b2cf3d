"""In which order the jobs of one call begin and end, and circles among them. Pure: no database."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqljobs.schema.errors import CycleError

CIRCLE_ENDS = 5  # names shown at either end of a long circle


class Moment(NamedTuple):
    """The begin, or the end, of the job at a position of the call."""

    position: int
    is_end: bool


def in_order(
    upstreams: Sequence[Sequence[int]], names: Sequence[str], parents: Sequence[int | None] = ()
) -> list[Moment]:
    """The begins and ends of the jobs 0..n-1, each after all that it must come after, else in input order.

    A job begins after the ends of its `upstreams` and after the begin of its parent; it ends after its begin and after
    the ends of its members (Kahn, CACM 1962). Raises `CycleError`, naming one circle by `names`."""
    before = _before(upstreams, parents or [None] * len(upstreams))
    waiting_for = [len(nodes) for nodes in before]
    after: list[list[int]] = [[] for _ in before]
    for node, nodes in enumerate(before):
        for earlier in nodes:
            after[earlier].append(node)
    free = [node for node, count in enumerate(waiting_for) if count == 0]  # in order, so a heap
    order: list[int] = []
    while free:
        node = heapq.heappop(free)
        order.append(node)
        for later in after[node]:
            waiting_for[later] -= 1
            if waiting_for[later] == 0:
                heapq.heappush(free, later)
    if len(order) < len(before):
        circle = _circle(before, set(range(len(before))) - set(order))
        raise CycleError("these jobs wait for each other: " + " -> ".join(_shortened([names[at] for at in circle])))
    return [Moment(node // 2, node % 2 == 1) for node in order]


def comes_after(
    upstreams: Sequence[Sequence[int]], parents: Sequence[int | None], positions: Iterable[int]
) -> set[int]:
    """Those positions whose begin comes before the end of one of `positions`: with these, all that they wait for."""
    before = _before(upstreams, parents)
    seen = {2 * position + 1 for position in positions}
    pending = list(seen)
    while pending:
        earlier = before[pending.pop()] - seen
        seen |= earlier
        pending += earlier
    return {node // 2 for node in seen if node % 2 == 0}


def _before(upstreams: Sequence[Sequence[int]], parents: Sequence[int | None]) -> list[set[int]]:
    """For each node those that it comes after; the begin of job i is node 2 i, its end node 2 i + 1."""
    before: list[set[int]] = []
    for position, ups in enumerate(upstreams):
        before += [{2 * up + 1 for up in ups}, {2 * position}]
    for position, parent in enumerate(parents):
        if parent is not None:
            before[2 * position].add(2 * parent)
            before[2 * parent + 1].add(2 * position + 1)
    return before


def _shortened(names: list[str]) -> list[str]:
    left_out = len(names) - 2 * CIRCLE_ENDS
    return names if left_out <= 1 else [*names[:CIRCLE_ENDS], f"{left_out} more", *names[-CIRCLE_ENDS:]]


def _circle(before: Sequence[set[int]], stuck: set[int]) -> list[int]:
    """Positions along one circle, the first once more at the end."""
    node = min(stuck)
    path: dict[int, None] = {}  # ordered, and quick to ask
    while node not in path:
        path[node] = None
        node = min(earlier for earlier in before[node] if earlier in stuck)
    walked = list(path)
    return list(_without_repeats([*walked[walked.index(node) :], node]))


def _without_repeats(nodes: Sequence[int]) -> Iterator[int]:
    """Positions of `nodes`, begin and end of one job next to each other once."""
    last = -1
    positions = [node // 2 for node in nodes]
    for number, position in enumerate(positions):
        if position != last or (number == len(positions) - 1 and len(set(positions)) == 1):
            yield position
        last = position
