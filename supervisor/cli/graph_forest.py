"""Which job of a picture stands under which: a forest, and its lines with their rails. Pure, knows no terminals.

A job comes after all that it waits for and hangs under the last of these; members stand inside their container."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqljobs.schema.graph import Edge
from sqljobs.schema.neighbourhood import Graph, GraphEdge, GraphJob, LeftOut, Relation

Scope = int | None  # a container that is shown, None around all


@dataclass(frozen=True)
class Forest:
    """`roots`: by container, the members that hang under no other; `hanging`: by job, those that hang under it;
    `drawn`: by job, the edge that it hangs by."""

    roots: Mapping[Scope, Sequence[int]]
    hanging: Mapping[int, Sequence[int]]
    drawn: Mapping[int, GraphEdge]


@dataclass(frozen=True)
class Glyphs:
    """What rails are made of: three columns for a branch, two for a step down and for the side of a container."""

    lines: Mapping[str, str]  # by kind of edge
    steps: Mapping[str, str]
    waits: str
    broken: str
    branch: str
    last: str
    bar: str
    inside: str
    dots: str

    def mark(self, edge: GraphEdge, by_kind: Mapping[str, str]) -> str:
        """Satisfied edges show their kind, the others that they are not."""
        return {Edge.OPEN: self.waits, Edge.BROKEN: self.broken}.get(edge.standing, by_kind[edge.kind])


UNICODE = Glyphs(
    lines={"ok": "─", "any": "┄", "not_ok": "·"},
    steps={"ok": "↓", "any": "⇣", "not_ok": "⇣"},
    waits="○",
    broken="×",
    branch="├",
    last="└",
    bar="│",
    inside="┃",
    dots="…",
)
ASCII = Glyphs(
    lines={"ok": "-", "any": "~", "not_ok": "."},
    steps={"ok": "v", "any": "~", "not_ok": "."},
    waits="o",
    broken="x",
    branch="|",
    last="`",
    bar="|",
    inside=":",
    dots="...",
)


@dataclass(frozen=True)
class Line:
    """One line of a picture: rails, the connector that ends them, and what stands there.

    `under`: the rails of what hangs below, `beside`: those of further lines of text. `edge`: the one that the connector
    draws. `adrift`: a member that its container had no room for."""

    item: GraphJob | LeftOut
    rails: str = ""
    connector: str = ""
    under: str = ""
    beside: str = ""
    edge: GraphEdge | None = None
    adrift: bool = False


def forest(graph: Graph) -> Forest:
    """The forest of `graph`. Where containers wait for each other's members in a circle the oldest job comes first."""
    scope_of: dict[int, Scope] = {
        job.id: job.parent if job.parent in graph.jobs else None for job in graph.jobs.values()
    }
    members: dict[Scope, list[int]] = {}
    for job in sorted(scope_of):
        members.setdefault(scope_of[job], []).append(job)
    waits: dict[int, set[int]] = {job: set() for job in scope_of}
    for edge in graph.edges:
        lower, upper = _side_by_side(scope_of, edge)
        if lower != upper:
            waits[lower].add(upper)
    edges = {(edge.job_id, edge.upstream): edge for edge in graph.edges}
    roots: dict[Scope, Sequence[int]] = {}
    hanging: dict[int, list[int]] = {}
    for scope, inside in members.items():
        roots[scope] = _arrange(inside, waits, edges, hanging)
    drawn = {below: edges[below, above] for above, all_below in hanging.items() for below in all_below}
    return Forest(roots, hanging, drawn)


def _side_by_side(scope_of: Mapping[int, Scope], edge: GraphEdge) -> tuple[int, int]:
    """The two ends of `edge`, or the containers around them that stand in one scope."""
    standing_in: dict[Scope, int] = {}
    at: Scope = edge.upstream
    while at is not None:
        standing_in[scope_of[at]] = at
        at = scope_of[at]
    at = edge.job_id
    while scope_of[at] not in standing_in:
        outer = scope_of[at]
        assert outer is not None
        at = outer
    return at, standing_in[scope_of[at]]


def _arrange(
    inside: Sequence[int],
    waits: Mapping[int, set[int]],
    edges: Mapping[tuple[int, int], GraphEdge],
    hanging: dict[int, list[int]],
) -> list[int]:
    """Put each job of one scope under the last that it waits for; returns those that come under none."""
    waiting_for = {job: set(waits[job]) for job in inside}
    followers: dict[int, list[int]] = {}
    for job in inside:
        for upstream in waits[job]:
            followers.setdefault(upstream, []).append(job)
    free = [job for job in inside if not waiting_for[job]]
    left = dict.fromkeys(inside)
    roots = []
    while left:
        root = heapq.heappop(free) if free else next(iter(left))
        roots.append(root)
        stack = [root]
        while stack:
            at = stack.pop()
            del left[at]
            for job in followers.get(at, ()):
                waiting_for[job].discard(at)
                if waiting_for[job] or job not in left:
                    continue
                if (job, at) in edges:
                    hanging.setdefault(at, []).append(job)
                else:
                    heapq.heappush(free, job)
            stack.extend(reversed(hanging.get(at, ())))
    return roots


def lines(graph: Graph, glyphs: Glyphs, widest: int) -> Iterator[Line]:
    """The picture from top to bottom; rails take at most `widest` columns, what is deeper goes without."""
    trees = forest(graph)
    crowds = {(left.job_id, left.relation): left for left in graph.left_out if left.is_crowd}
    stack = [Line(graph.jobs[root]) for root in reversed(trees.roots[None])]
    while stack:
        line = stack.pop()
        if isinstance(line.item, LeftOut):
            yield line
            continue
        job = line.item.id
        below: list[GraphJob | LeftOut] = [graph.jobs[one] for one in trees.hanging.get(job, ())]
        inside: list[GraphJob | LeftOut] = [graph.jobs[one] for one in trees.roots.get(job, ())]
        for kind, found in ((Relation.DEPENDENTS, below), (Relation.MEMBERS, inside)):
            if (job, kind) in crowds:
                found.append(crowds[job, kind])
        bar = f"{glyphs.bar} " if below else ""
        yield replace(line, beside=line.under + (bar or (f"{glyphs.inside} " if inside else "  ")))
        wall = f"{line.under}{bar}{glyphs.inside} "
        has_room = len(wall) <= widest
        wall = wall if has_room else line.under
        stack.extend(reversed(list(_below(below, line.under, trees, glyphs, widest))))
        stack.extend(Line(one, rails=wall, under=wall, adrift=not has_room) for one in reversed(inside))


def _below(
    below: Sequence[GraphJob | LeftOut], rails: str, trees: Forest, glyphs: Glyphs, widest: int
) -> Iterator[Line]:
    """What hangs under one job: one alone goes on in its column, several branch off."""
    for place, one in enumerate(below, 1):
        edge = None if isinstance(one, LeftOut) else trees.drawn[one.id]
        if len(below) == 1:
            connector = "" if edge is None else f"{glyphs.mark(edge, glyphs.steps)} "
            yield Line(one, rails, connector, under=rails, edge=edge)
        elif len(rails) + 3 > widest:
            yield Line(one, rails, under=rails)
        else:
            corner, further = (glyphs.last, "   ") if place == len(below) else (glyphs.branch, f"{glyphs.bar}  ")
            mark = glyphs.lines["ok"] if edge is None else glyphs.mark(edge, glyphs.lines)
            yield Line(one, rails, f"{corner}{mark} ", under=rails + further, edge=edge)
