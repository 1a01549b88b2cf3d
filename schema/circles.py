"""Circles that new members of existing containers would close, or jobs that are opened again: found by walking up the
open part of the graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.conditions import is_unset
from sqljobs.schema.ends import has_begun
from sqljobs.schema.enqueue_plan import Call, Parent
from sqljobs.schema.errors import CycleError
from sqljobs.schema.families import ancestors
from sqljobs.schema.order import comes_after, in_order
from sqljobs.schema.states import FINAL, OPEN, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

_OPEN = sorted(state.value for state in OPEN)


class Before(NamedTuple):
    """Existing jobs that members to be of a container wait for: those that must have ended, or begun, before."""

    ends: frozenset[int]
    begins: frozenset[int]


def inside(call: Call, parent: int, upstreams: Sequence[Sequence[int]]) -> Before:
    """What new members of the existing container `parent` would wait for, through whatever is in this call."""
    parents = [up if isinstance(up, int) else None for up in call.parents]
    mine = {
        at for at, up in enumerate(call.parents) if isinstance(up, Parent) and up.job_id == parent and at in call.new
    }
    before = comes_after(upstreams, parents, mine)
    named = {up.job_id for at in before for up in call.upstreams[at] if up.job_id is not None}
    return Before(
        frozenset(job_id for job_id in named if State(call.known[job_id].state) not in FINAL),
        frozenset(up.job_id for up in (call.parents[at] for at in before) if isinstance(up, Parent)),
    )


def find_circle(tx: Transaction, waited_for: Mapping[int, Before]) -> tuple[int, int] | None:
    """`waited_for`: for existing containers the existing jobs that their new members would wait for.

    Returns a container and one of those jobs that cannot end, or begin, before it does, or None. Level by level, a
    statement for each 500 jobs; two where nobody waits for any of these containers."""
    if not waited_for:
        return None
    around = {job_id: {job_id, *(row.id for row in ancestors(tx, [job_id]))} for job_id in waited_for}
    ends = {job_id for jobs_around in around.values() for job_id in jobs_around}
    named = {job_id for before in waited_for.values() for job_id in before.ends}
    awaited = set(_column(tx, "awaited", job_deps.c.depends_on_id, job_deps.c.depends_on_id, ends, _unsatisfied()))
    if not awaited and not named & ends:
        return None
    reached = {job_id: _above(tx, before).ends & ends for job_id, before in waited_for.items()}
    for job_id, found in reached.items():
        if _with_new_members(found, reached) & around[job_id]:
            for up, before in _one_by_one(waited_for[job_id]):
                if _with_new_members(_above(tx, before).ends & ends, reached) & around[job_id]:
                    return job_id, up
    return None


def _one_by_one(before: Before) -> Iterator[tuple[int, Before]]:
    nothing: frozenset[int] = frozenset()
    yield from ((up, Before(frozenset([up]), nothing)) for up in sorted(before.ends))
    yield from ((up, Before(nothing, frozenset([up]))) for up in sorted(before.begins))


def _with_new_members(found: Collection[int], reached: Mapping[int, set[int]]) -> set[int]:
    """What must end before `found` end, if those among them get their new members, too."""
    seen: set[int] = set()
    pending = list(found)
    while pending:
        job_id = pending.pop()
        if job_id not in seen:
            seen.add(job_id)
            pending += reached.get(job_id, ())
    return seen


class _Above(NamedTuple):
    """Open jobs by id, what each of them waits for, and which must have ended."""

    rows: dict[int, Any]
    upstreams: dict[int, list[int]]
    ends: set[int]


def _above(tx: Transaction, before: Before, reopened: Collection[int] = ()) -> _Above:
    """The open jobs, `reopened` counting as such, that must have ended, or begun, before all of this has.

    What has not begun waits for all its upstreams that are open. Level by level, three statements for each 500 jobs."""
    found = _Above({}, defaultdict(list), set())
    begins: set[int] = set()
    new_ends, new_begins = set(before.ends), {*before.ends, *before.begins}
    while new_ends or new_begins:
        rows = {row.id: row for row in _rows(tx, new_begins) if State(row.state) in OPEN or row.id in reopened}
        waiting = sorted(job_id for job_id, row in rows.items() if not has_begun(row))
        found.rows.update(rows)
        found.ends.update(new_ends)
        begins |= new_begins
        for edge in _edges(tx, waiting):
            found.upstreams[edge.job_id].append(edge.depends_on_id)
        ending = new_ends & found.rows.keys()
        ends = {up for job_id in waiting for up in found.upstreams[job_id]}
        ends |= set(_column(tx, "members", jobs.c.id, jobs.c.parent_id, ending, jobs.c.state.in_(_OPEN)))
        parents = {rows[job_id].parent_id for job_id in waiting} - {None}
        new_ends, new_begins = ends - found.ends, (ends | parents) - begins
    return found


def _unsatisfied() -> ColumnElement[bool]:
    return is_unset(job_deps.c.satisfied)


def _column(
    tx: Transaction, what: str, wanted: Any, by: Any, among: Collection[int], *where: ColumnElement[bool]
) -> Iterator[int]:
    """The values of `wanted` in rows whose `by` is one of `among`."""
    ids = sorted(among)
    for chunk in chunks(ids):
        statement = select(wanted).where(by.in_(chunk), wanted.is_not(None), *where).distinct()
        yield from tx.execute(what, statement).scalars()


def circle_if_open(tx: Transaction, ids: Collection[int]) -> str | None:
    """Whether some would wait for each other if the jobs `ids`, which have ended, were open again: those, in words."""
    rows, upstreams, _ = _above(tx, Before(frozenset(ids), frozenset()), ids)
    places = {job_id: place for place, job_id in enumerate(sorted(rows))}
    waits_for = [[places[up] for up in upstreams[job_id] if up in places] for job_id in places]
    parents = [places.get(rows[job_id].parent_id) for job_id in places]
    try:
        in_order(waits_for, [f"{rows[job_id].type} {job_id}" for job_id in places], parents)
    except CycleError as error:
        return str(error)
    return None


def _rows(tx: Transaction, ids: Collection[int]) -> Iterator[Any]:
    columns = (jobs.c.id, jobs.c.type, jobs.c.state, jobs.c.parent_id, jobs.c.attempt, jobs.c.started_at)
    wanted = sorted(ids)
    for chunk in chunks(wanted):
        yield from tx.execute("level", select(*columns).where(jobs.c.id.in_(chunk)))


def _edges(tx: Transaction, dependents: Sequence[int]) -> Iterator[Any]:
    columns = (job_deps.c.job_id, job_deps.c.depends_on_id)
    for chunk in chunks(dependents):
        chosen = job_deps.c.job_id.in_(chunk)
        yield from tx.execute("level_edges", select(*columns).where(chosen))
