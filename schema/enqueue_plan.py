"""Which rows one call of enqueue will write, and in which state. Pure: the existing jobs are handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqljobs.schema.durations import moment_at
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.graph import NOT_NEEDED, Edge, edge_of, is_good
from sqljobs.schema.specs import JobSpec, Request, two_kinds
from sqljobs.schema.states import FINAL, State


class Known(NamedTuple):
    """An existing job, as far as an edge to it goes."""

    state: str
    reason: str | None
    culprit: int  # the job whose bad end this one's is, itself if it is the root


class Upstream(NamedTuple):
    """The far end of an edge: an existing job's id, or the position of a new job of this call."""

    job_id: int | None
    position: int | None


@dataclass(frozen=True)
class Start:
    """The state a new job begins in. `edges`: the standing of each of its upstreams, in their order. `reason`, and
    `culprit`, of one that ends at birth."""

    state: State
    due: datetime | None
    edges: tuple[Edge, ...]
    reason: str | None = None
    culprit: int | None = None

    @property
    def unmet(self) -> int:
        """How many edges are not satisfied."""
        return sum(edge is not Edge.SATISFIED for edge in self.edges)


def first_of_key(requests: Sequence[Request]) -> list[int]:
    """For each position the one whose row it shares: itself, or the first of the call with its (type, key)."""
    seen: dict[tuple[str, str], int] = {}
    return [
        position if request.key is None else seen.setdefault((request.type, request.key), position)
        for position, request in enumerate(requests)
    ]


def named_positions(requests: Sequence[Request]) -> list[list[int]]:
    """For each request the positions of the specs that it waits for.

    Raises `InvalidJob` for a spec that is not in the call, or is there twice."""
    places: dict[JobSpec, list[int]] = {}
    for position, request in enumerate(requests):
        places.setdefault(request.spec, []).append(position)
    return [
        [_place(request, item, places) for item in request.waits_for if isinstance(item, JobSpec)]
        for request in requests
    ]


def _place(request: Request, item: JobSpec, places: Mapping[JobSpec, list[int]]) -> int:
    found = places.get(item, [])
    if len(found) != 1:
        fault = "stands more than once in" if found else "is not in"
        raise InvalidJob(
            f"{request.type!r} waits for a spec of type {item.type!r} that {fault} this call"
            " (options() makes a new spec: list and name the same one)"
        )
    return found[0]


def upstreams_of(
    requests: Sequence[Request], named: Sequence[Sequence[int]], first: Sequence[int], existing: Mapping[int, int]
) -> list[dict[Upstream, str]]:
    """For each request its upstreams, each once, in the order given, with the kind of the edge.

    `existing`: position -> id of a taken key. Raises `InvalidJob` where a key makes one of two with different kinds."""
    resolved = []
    for request, positions in zip(requests, named, strict=True):
        remaining = iter(positions)
        edges: dict[Upstream, str] = {}
        for item, kind in request.waits_for.items():
            if isinstance(item, JobSpec):
                row = first[next(remaining)]
                upstream = Upstream(existing[row], None) if row in existing else Upstream(None, row)
            else:
                upstream = Upstream(item, None)
            if edges.setdefault(upstream, kind) != kind:
                raise two_kinds(request.type, "one job (two specs have its key)")
        resolved.append(edges)
    return resolved


def starts_of(
    now: datetime,
    requests: Sequence[Request],
    upstreams: Sequence[Mapping[Upstream, str]],
    new: Sequence[int],
    known: Mapping[int, Known],
) -> dict[int, Start]:
    """How each new job begins; `new` lists upstreams first, so that a bad end reaches down through the call."""
    starts: dict[int, Start] = {}
    for position in new:
        ends = [(kind, _end_of(upstream, starts, known)) for upstream, kind in upstreams[position].items()]
        edges = tuple(edge_of(kind, end.state, end.reason) for kind, end in ends)
        run_after = requests[position].run_after
        due = None if run_after is None else moment_at(run_after, now)
        if Edge.BROKEN in edges:
            culprit = ends[edges.index(Edge.BROKEN)][1].culprit
            starts[position] = Start(State.CANCELLED, due, edges, "dependency", culprit)
        elif _is_not_needed(ends):
            starts[position] = Start(State.CANCELLED, due, edges, NOT_NEEDED)
        else:
            starts[position] = Start(_first_state(edges, due, now), due, edges)
    return starts


def _end_of(upstream: Upstream, starts: Mapping[int, Start], known: Mapping[int, Known]) -> Known:
    if upstream.job_id is not None:
        return known[upstream.job_id]
    assert upstream.position is not None
    start = starts[upstream.position]
    return Known(start.state.value, start.reason, start.culprit or 0)


def _is_not_needed(ends: Sequence[tuple[str, Known]]) -> bool:
    awaited = [end for kind, end in ends if kind == "not_ok"]
    return bool(awaited) and all(State(end.state) in FINAL and is_good(end.state, end.reason) for end in awaited)


def _first_state(edges: Sequence[Edge], due: datetime | None, now: datetime) -> State:
    if Edge.OPEN in edges:
        return State.BLOCKED
    return State.SCHEDULED if due is not None and due > now else State.READY
