"""Random stories of graphs, drawn as numbers that choose among what is there when the move is made. No database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hypothesis import strategies as st

from sqljobs.schema.graph import KINDS
from sqljobs.schema.outcomes import Cause
from sqljobs.schema.specs import JobSpec
from tests.schema.graph_model import Described, New, Ref

Move = tuple[Any, ...]
OPTIONS = {kind: option for option, kind in KINDS.items()}
WILD = 28  # numbers from here on choose among all jobs, also those that make no sense


class Drawn(NamedTuple):
    """One job to be."""

    edges: list[tuple[str, int]]
    container: bool
    parent: int | None
    delayed: bool
    key: str | None
    max_attempts: int


number = st.integers(0, 30)
numbers = st.lists(number, min_size=1, max_size=3)
one_or_two = st.one_of(number.map(lambda n: [n]), numbers)
seldom = st.sampled_from([False, False, False, False, False, True])
one_job = st.builds(
    Drawn,
    edges=st.lists(st.tuples(st.sampled_from(["ok", "ok", "any", "not_ok"]), number), max_size=2),
    container=st.sampled_from([False, False, True]),
    parent=st.one_of(st.none(), number, number),
    delayed=seldom,
    key=st.sampled_from([*[None] * 8, "k", "l"]),
    max_attempts=st.sampled_from([1, 1, 2, 5]),
)
keyless = one_job.map(lambda one: one._replace(key=None))
family = st.tuples(keyless, st.lists(one_job, min_size=2, max_size=6)).map(
    lambda drawn: [drawn[0]._replace(container=True), *drawn[1]]
)
nobody: st.SearchStrategy[list[Drawn]] = st.just([])
some = st.lists(keyless, min_size=1, max_size=3)
bad = st.sampled_from([Cause.FAIL, Cause.FAIL, Cause.FAIL, Cause.ERROR, Cause.CANCELLED])
cause = st.one_of(st.just(Cause.DONE), bad, bad, st.sampled_from(list(Cause)))
end = st.tuples(cause, seldom, nobody, nobody)
spawning = st.tuples(st.just(Cause.DONE), seldom, some, st.one_of(nobody, nobody, some))
moves: st.SearchStrategy[Move] = st.one_of(
    st.tuples(st.just("enqueue"), st.one_of(family, st.lists(one_job, min_size=1, max_size=4)), st.booleans()),
    st.tuples(st.just("enqueue one"), one_job),
    st.tuples(st.just("enqueue within"), number, st.lists(one_job, min_size=1, max_size=3)),
    st.tuples(st.just("claim"), numbers),
    st.tuples(st.just("end"), number, st.one_of(end, end, spawning)),
    st.tuples(st.just("run"), number, end),
    st.tuples(st.just("run"), number, st.one_of(end, spawning)),
    st.tuples(st.just("cancel"), numbers, seldom),
    st.tuples(st.just("retry"), one_or_two, seldom),
    st.tuples(st.just("retry"), one_or_two, seldom),
    st.tuples(st.just("skip"), one_or_two, seldom, seldom),
    st.tuples(st.just("time passes")),
)
beginning = st.lists(st.tuples(st.just("enqueue"), family, st.booleans()), min_size=1, max_size=3)
stories = st.tuples(beginning, st.lists(moves, min_size=10, max_size=24)).map(lambda parts: [*parts[0], *parts[1]])


def described(drawn: Sequence[Drawn], known: Sequence[int], boxes: Sequence[int]) -> list[Described]:
    """What is meant, where the jobs `known` are there, of which `boxes` may have children. Small numbers choose what
    is new."""
    made: list[Described] = []
    for place, one in enumerate(drawn):
        fresh = [New(earlier) for earlier in range(place)]
        any_job: list[Ref] = [*known, *fresh]
        any_box: list[Ref] = [*boxes, *(ref for ref in fresh if drawn[ref.place].container)]
        # A member that waits for a container does so in a circle, mostly.
        leaves = [ref for ref in any_job if ref not in any_box] if one.parent is not None else any_job
        edges = {_pick(any_job if n >= WILD else leaves or any_job, n): kind for kind, n in one.edges if any_job}
        pool = any_job if one.parent is not None and one.parent >= WILD else any_box
        parent = _pick(pool, one.parent) if pool and one.parent is not None else None
        delayed = one.delayed and not one.container
        made.append(Described(one.container, parent, tuple(edges.items()), delayed, one.key, one.max_attempts))
    return made


def _pick(pool: Sequence[Ref], n: int) -> Ref:
    return pool[-1 - n % len(pool)]


def turned(made: Sequence[Described]) -> list[Described]:
    """The same jobs the other way round: what is named comes after those that name it."""
    last = len(made) - 1
    return [_renumbered(one, lambda place: last - place) for one in reversed(made)]


def moved(made: Sequence[Described], by: int) -> list[Described]:
    """The same jobs, so many places further on."""
    return [_renumbered(one, lambda place: place + by) for one in made]


def _renumbered(one: Described, to: Callable[[int], int]) -> Described:
    edges = tuple((New(to(ref.place)) if isinstance(ref, New) else ref, kind) for ref, kind in one.edges)
    parent = New(to(one.parent.place)) if isinstance(one.parent, New) else one.parent
    return replace(one, edges=edges, parent=parent)


def specs_of(made: Sequence[Described], first_place: int = 0) -> list[JobSpec]:
    """The same as a caller writes it. The group tells which is which."""
    specs: dict[int, JobSpec] = {}

    def resolved(ref: Ref) -> int | JobSpec:
        return spec_at(ref.place) if isinstance(ref, New) else ref

    def spec_at(place: int) -> JobSpec:
        if place not in specs:
            one = made[place]
            options: dict[str, Any] = {"key": one.key, "group": str(first_place + place)}
            for ref, kind in one.edges:
                options.setdefault(OPTIONS[kind], []).append(resolved(ref))
            if one.parent is not None:
                options["parent"] = resolved(one.parent)
            if one.container:
                options["container"] = True
            else:
                options |= {"max_attempts": one.max_attempts, "run_after": "1h" if one.delayed else None}
            specs[place] = JobSpec("t", **options)
        return specs[place]

    return [spec_at(place) for place in range(len(made))]
