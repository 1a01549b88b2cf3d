"""Which rows one call of enqueue will write, and in which state. Pure: the existing jobs are handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqljobs.schema.durations import moment_at
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.graph import Edge, edge_of
from sqljobs.schema.specs import JobSpec, Request
from sqljobs.schema.states import State


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
    """The state a new job begins in."""

    unmet: int
    doomed_by: int | None
    state: State
    due: datetime | None


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
        [_place(request, item, places) for item in request.after if isinstance(item, JobSpec)] for request in requests
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
) -> list[list[Upstream]]:
    """For each request its edges, each upstream once, in the order given. `existing`: position -> id of a taken key."""
    resolved = []
    for request, positions in zip(requests, named, strict=True):
        remaining = iter(positions)
        edges: dict[Upstream, None] = {}
        for item in request.after:
            if isinstance(item, JobSpec):
                row = first[next(remaining)]
                edges[Upstream(existing[row], None) if row in existing else Upstream(None, row)] = None
            else:
                edges[Upstream(item, None)] = None
        resolved.append(list(edges))
    return resolved


def starts_of(
    now: datetime,
    requests: Sequence[Request],
    upstreams: Sequence[Sequence[Upstream]],
    new: Sequence[int],
    known: Mapping[int, Known],
) -> dict[int, Start]:
    """How each new job begins; `new` lists upstreams first, so that a bad end reaches down through the call."""
    starts: dict[int, Start] = {}
    for position in new:
        unmet, doomed_by = 0, None
        for job_id, place in upstreams[position]:
            if job_id is None:
                assert place is not None
                unmet += 1
                doomed_by = doomed_by or starts[place].doomed_by
                continue
            edge = edge_of("ok", known[job_id].state, known[job_id].reason)
            unmet += edge is not Edge.SATISFIED
            if edge is Edge.BROKEN:
                doomed_by = doomed_by or known[job_id].culprit
        run_after = requests[position].run_after
        due = None if run_after is None else moment_at(run_after, now)
        starts[position] = Start(unmet, doomed_by, _first_state(unmet, doomed_by, due, now), due)
    return starts


def _first_state(unmet: int, doomed_by: int | None, due: datetime | None, now: datetime) -> State:
    if doomed_by is not None:
        return State.CANCELLED
    if unmet:
        return State.BLOCKED
    return State.SCHEDULED if due is not None and due > now else State.READY
