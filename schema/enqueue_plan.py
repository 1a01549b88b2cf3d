"""Which rows one call of enqueue will write, and in which state. Pure: the existing jobs are handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from sqljobs.schema.durations import moment_at
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.graph import NOT_NEEDED, Children, Edge, edge_of, is_good
from sqljobs.schema.order import Moment
from sqljobs.schema.specs import JobSpec, Request, two_kinds
from sqljobs.schema.states import FINAL, State


class Known(NamedTuple):
    """An existing job, as far as an edge to it goes."""

    state: str
    reason: str | None
    culprit: int  # the job whose bad end this one's is, itself if it is the root


class Parent(NamedTuple):
    """An existing job that gets members; `legacy`: the options that they inherit. `is_held`: its row is ours, so that
    it stays as it is, and counts them at once."""

    job_id: int
    state: str
    legacy: Mapping[str, Any]
    is_held: bool


NO_CHILDREN = Children()


class Upstream(NamedTuple):
    """The far end of an edge: an existing job's id, or the position of a new job of this call."""

    job_id: int | None
    position: int | None


@dataclass(frozen=True)
class Start:
    """The state a new job begins in. `edges`: the standing of each of its upstreams, in their order. `reason`, and
    `culprit`, of one that ends at birth; `children`: those members of the same call."""

    state: State
    due: datetime | None
    edges: tuple[Edge, ...]
    reason: str | None = None
    culprit: int | None = None
    gated: bool = False
    children: Children = NO_CHILDREN

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
    places = _places(requests)
    return [
        [_place(request, "waits for", item, places) for item in request.waits_for if isinstance(item, JobSpec)]
        for request in requests
    ]


def named_parents(requests: Sequence[Request]) -> list[int | None]:
    """For each request the position of the spec that is its parent, if it is one. Errors as for `named_positions`."""
    places = _places(requests)
    return [
        _place(request, "is part of", request.parent, places) if isinstance(request.parent, JobSpec) else None
        for request in requests
    ]


def refuse_leaves(requests: Sequence[Request], above: Sequence[int | None], existing: Mapping[int, int]) -> None:
    """Raise `InvalidJob` where the parent, a position in `above`, is no container; `existing` are looked at later."""
    for request, at in zip(requests, above, strict=True):
        if at is not None and at not in existing and not requests[at].container:
            raise InvalidJob(
                f"{request.type!r} is part of a spec of type {requests[at].type!r} that is no container:"
                " give that one container=True"
            )


def _places(requests: Sequence[Request]) -> dict[JobSpec, list[int]]:
    places: dict[JobSpec, list[int]] = {}
    for position, request in enumerate(requests):
        places.setdefault(request.spec, []).append(position)
    return places


def _place(request: Request, how: str, item: JobSpec, places: Mapping[JobSpec, list[int]]) -> int:
    found = places.get(item, [])
    if len(found) != 1:
        fault = "stands more than once in" if found else "is not in"
        raise InvalidJob(
            f"{request.type!r} {how} a spec of type {item.type!r} that {fault} this call"
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


@dataclass(frozen=True)
class Call:
    """One call of enqueue, all names in it resolved. `parents`: by position, an existing job or a position.

    `new`: the positions that get a row. `awaits_child`: a container without members stays open until it has had one."""

    requests: Sequence[Request]
    upstreams: Sequence[Mapping[Upstream, str]]
    parents: Sequence[Parent | int | None]
    new: Set[int]
    known: Mapping[int, Known]
    awaits_child: bool = False


def starts_of(now: datetime, call: Call, order: Sequence[Moment]) -> dict[int, Start]:
    """How each new job begins, and a container that has nothing to wait for ends. `order`: upstreams and the begin of
    parents first, so that what has ended reaches down through the call."""
    starts: dict[int, Start] = {}
    members: dict[int, list[int]] = {}
    for position, is_end in order:
        if position not in call.new:
            continue
        parent = call.parents[position]
        if not is_end:
            if isinstance(parent, int):
                members.setdefault(parent, []).append(position)
            starts[position] = _begin(now, call, position, starts)
        elif call.requests[position].container:
            starts[position] = _end(call, starts[position], [starts[at] for at in members.get(position, ())])
    return starts


def _begin(now: datetime, call: Call, position: int, starts: Mapping[int, Start]) -> Start:
    request, parent = call.requests[position], call.parents[position]
    ends = [(kind, _end_of(upstream, starts, call.known)) for upstream, kind in call.upstreams[position].items()]
    edges = tuple(edge_of(kind, end.state, end.reason) for kind, end in ends)
    due = None if request.run_after is None else moment_at(request.run_after, now)
    around = starts[parent].state if isinstance(parent, int) else State(parent.state) if parent else None
    if isinstance(parent, int) and around is State.CANCELLED:  # and so are its members
        return Start(State.CANCELLED, due, edges, starts[parent].reason, starts[parent].culprit)
    if Edge.BROKEN in edges:
        culprit = ends[edges.index(Edge.BROKEN)][1].culprit
        return Start(State.CANCELLED, due, edges, "dependency", culprit)
    if _is_not_needed(ends):
        return Start(State.CANCELLED, due, edges, NOT_NEEDED)
    gated = around is State.BLOCKED
    if gated or Edge.OPEN in edges:
        return Start(State.BLOCKED, due, edges, gated=gated)
    if request.container:
        return Start(State.WAITING, due, edges)
    return Start(State.SCHEDULED if due is not None and due > now else State.READY, due, edges)


def _end(call: Call, start: Start, members: Sequence[Start]) -> Start:
    """The container with its members counted; ended, if it waits for nothing.

    One that ends badly is left to supervisors: who waits for it must be told its id, which it has not got yet."""
    children = Children(open=len(members))
    for member in members:
        if member.state in FINAL:
            children = children.with_end(member.state.value, member.reason)
    is_over = children.open == 0 and (members or not call.awaits_child)
    if start.state is State.WAITING and is_over and children.end(cancel_requested=False) is State.DONE:
        return replace(start, state=State.DONE, children=children)
    return replace(start, children=children)


def _end_of(upstream: Upstream, starts: Mapping[int, Start], known: Mapping[int, Known]) -> Known:
    if upstream.job_id is not None:
        return known[upstream.job_id]
    assert upstream.position is not None
    start = starts[upstream.position]
    return Known(start.state.value, start.reason, start.culprit or 0)


def _is_not_needed(ends: Sequence[tuple[str, Known]]) -> bool:
    awaited = [end for kind, end in ends if kind == "not_ok"]
    return bool(awaited) and all(State(end.state) in FINAL and is_good(end.state, end.reason) for end in awaited)


def levels_of(call: Call, order: Sequence[Moment]) -> list[list[int]]:
    """The new positions in the order in which they begin: those without a new parent, then their members, and so on.

    So ids ascend from upstreams to dependents, the order in which rows are locked, save across levels."""
    depth: dict[int, int] = {}
    levels: list[list[int]] = []
    for position, is_end in order:
        if position not in call.new or is_end:
            continue
        parent = call.parents[position]  # it begins first
        depth[position] = depth[parent] + 1 if isinstance(parent, int) and parent in call.new else 0
        if len(levels) == depth[position]:
            levels.append([])
        levels[depth[position]].append(position)
    return levels
