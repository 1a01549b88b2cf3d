"""Circles that new members of existing containers would close, or jobs that are opened again: found by walking up the
open part of the graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select

from sqljobs.schema.conditions import is_unset
from sqljobs.schema.ends import has_begun
from sqljobs.schema.enqueue_plan import Call, Parent
from sqljobs.schema.errors import CycleError
from sqljobs.schema.order import comes_after, in_order
from sqljobs.schema.states import FINAL, OPEN, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

CHUNK = 500
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
    around = {job_id: _around(tx, job_id) for job_id in waited_for}
    ends = {job_id for jobs_around in around.values() for job_id in jobs_around}
    named = {job_id for before in waited_for.values() for job_id in before.ends}
    awaited = set(_column(tx, "awaited", job_deps.c.depends_on_id, job_deps.c.depends_on_id, ends, _unsatisfied()))
    if not awaited and not named & ends:
        return None
    reached = {job_id: _ends_before(tx, before) & ends for job_id, before in waited_for.items()}
    for job_id, found in reached.items():
        if _with_new_members(found, reached) & around[job_id]:
            for up, before in _one_by_one(waited_for[job_id]):
                if _with_new_members(_ends_before(tx, before) & ends, reached) & around[job_id]:
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


def _around(tx: Transaction, job_id: int) -> set[int]:
    """The job and the containers around it."""
    found = {job_id}
    pending = [job_id]
    while pending:
        pending = [one for one in _column(tx, "around", jobs.c.parent_id, jobs.c.id, pending) if one not in found]
        found |= set(pending)
    return found


def _ends_before(tx: Transaction, before: Before) -> set[int]:
    """The open jobs that must have ended before all of this has ended, or begun; what must have ended is included."""
    ends, begins = set(before.ends), {*before.ends, *before.begins}
    new_ends, new_begins = set(ends), set(begins)
    while new_ends or new_begins:
        of_open = (jobs.c.state.in_(_OPEN),)
        members = set(_column(tx, "members", jobs.c.id, jobs.c.parent_id, new_ends, *of_open))
        ups = set(_column(tx, "upstreams", job_deps.c.depends_on_id, job_deps.c.job_id, new_begins, _unsatisfied()))
        parents = set(_column(tx, "around", jobs.c.parent_id, jobs.c.id, new_begins))
        new_ends = (members | ups) - ends
        new_begins = (new_ends | parents) - begins
        ends |= new_ends
        begins |= new_begins
    return ends


def _unsatisfied() -> ColumnElement[bool]:
    return is_unset(job_deps.c.satisfied)


def _column(
    tx: Transaction, what: str, wanted: Any, by: Any, among: Collection[int], *where: ColumnElement[bool]
) -> Iterator[int]:
    """The values of `wanted` in rows whose `by` is one of `among`."""
    ids = sorted(among)
    for start in range(0, len(ids), CHUNK):
        statement = select(wanted).where(by.in_(ids[start : start + CHUNK]), wanted.is_not(None), *where).distinct()
        yield from tx.execute(what, statement).scalars()


def circle_if_open(tx: Transaction, ids: Collection[int]) -> str | None:
    """Whether some would wait for each other if the jobs `ids`, which have ended, were open again: those, in words.

    What has not begun waits for all its upstreams that are open then. All that is above is read, level by level."""
    rows: dict[int, Any] = {}
    upstreams: dict[int, list[int]] = defaultdict(list)
    level = set(ids)
    while level:
        new = {row.id: row for row in _rows(tx, level) if State(row.state) in OPEN or row.id in ids}
        rows |= new
        waiting = sorted(job_id for job_id, row in new.items() if not has_begun(row))
        for row in _edges(tx, waiting):
            upstreams[row.job_id].append(row.depends_on_id)
        above = {new[job_id].parent_id for job_id in waiting} - {None}
        members = _column(tx, "members", jobs.c.id, jobs.c.parent_id, new, jobs.c.state.in_(_OPEN))
        level = {*above, *members, *(up for job_id in waiting for up in upstreams[job_id])} - rows.keys()
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
    for start in range(0, len(wanted), CHUNK):
        yield from tx.execute("level", select(*columns).where(jobs.c.id.in_(wanted[start : start + CHUNK])))


def _edges(tx: Transaction, dependents: Sequence[int]) -> Iterator[Any]:
    columns = (job_deps.c.job_id, job_deps.c.depends_on_id)
    for start in range(0, len(dependents), CHUNK):
        chosen = job_deps.c.job_id.in_(dependents[start : start + CHUNK])
        yield from tx.execute("level_edges", select(*columns).where(chosen))
