"""Dependencies: what an end makes of the edges to it, and of the jobs that wait for it. What follows is settling.py."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, exists, func, not_, or_, select, update

from sqljobs.schema.chunks import CHUNK, chunks
from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.ends import End, close, has_begun, is_blocked, lock_neighbours, lock_rows, was_closed_at_birth
from sqljobs.schema.graph import NOT_NEEDED, Edge, edge_of
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.states import OPEN, UNCLAIMED, Event, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.wake import wake

_PENDING = is_unset(job_deps.c.satisfied)


def open_edges(
    tx: Transaction, upstreams: Collection[int], limit: int, *, after_id: int = 0, unchecked: bool = False
) -> Sequence[Any]:
    """(depends_on_id, job_id, kind, checked, container) of the unsettled edges to `upstreams`, in that order, beyond
    the dependent `after_id`; with `unchecked` only those that nobody has looked at. `container`: the dependent is
    one."""
    pending = is_unset(job_deps.c.satisfied)
    if unchecked:
        pending = and_(pending, is_unset(job_deps.c.checked))
    statement = (
        select(job_deps.c.depends_on_id, job_deps.c.job_id, job_deps.c.kind, job_deps.c.checked, jobs.c.container)
        .join(jobs, jobs.c.id == job_deps.c.job_id)
        .where(job_deps.c.depends_on_id.in_(sorted(upstreams)), pending, job_deps.c.job_id > after_id)
        .order_by(job_deps.c.depends_on_id, job_deps.c.job_id)
        .limit(limit)
    )
    return tx.execute("edges", statement).all()


def awaited(tx: Transaction, upstreams: Collection[int]) -> list[int]:
    """Those of `upstreams` with unsettled edges to them."""
    ids = sorted(upstreams)
    statement = select(job_deps.c.depends_on_id).where(
        job_deps.c.depends_on_id.in_(ids), is_unset(job_deps.c.satisfied)
    )
    return sorted(tx.execute("awaited", statement.distinct()).scalars()) if ids else []


class Settled(NamedTuple):
    """`ended`: what this ends; `free`: the rows of jobs that wait for nothing more; `held`: (upstream, dependent) of
    edges to containers that others hold, which are not settled yet."""

    ended: list[End]
    free: list[Any]
    held: list[tuple[int, int]]


def settle_edges(tx: Transaction, ends: Mapping[int, End], edges: Sequence[Any], *, looked: bool) -> Settled:
    """Flip these edges to what has ended. `looked`: those that nobody had looked at are looked at now.

    The upstreams' rows are locked already, so an edge that is committed is seen, and one that is not will be checked by
    a supervisor after its commit. So is one of a job that was cancelled at its birth, which a good end undoes.
    Dependents are locked by primary key, in order of their ids."""
    containers = {edge.job_id for edge in edges if edge.container}
    rows = lock_neighbours(tx, "lock_dependents", {edge.job_id for edge in edges} - containers, containers)
    locked = {row.id: row for row in rows}
    satisfied: list[tuple[int, int]] = []
    broken: list[tuple[int, int]] = []
    held: list[tuple[int, int]] = []
    for upstream, job_id, kind, checked, _ in edges:
        standing = edge_of(kind, ends[upstream].state, ends[upstream].reason)
        row = locked.get(job_id)
        if standing is Edge.SATISFIED and not (checked or looked) and row is not None and was_closed_at_birth(row):
            continue
        group = satisfied if standing is Edge.SATISFIED else broken
        (group if job_id in locked else held).append((upstream, job_id))
    fresh = _flip(tx, satisfied, satisfied=True)
    _flip(tx, broken, satisfied=False)
    count(tx, fresh, -1)
    blocked = {job_id: row for job_id, row in locked.items() if is_blocked(row)}
    # Asked only of those concerned: the answer is a walk over all edges of the job.
    after_failures = {edge.job_id for edge in edges if edge.kind == "not_ok"}
    pointless = not_needed(tx, [job_id for job_id in fresh if job_id in blocked and job_id in after_failures])
    closed = close(tx, [blocked.pop(job_id) for job_id in pointless], NOT_NEEDED, None)
    for culprit, doomed in _by_culprit(ends, broken, blocked).items():
        closed += close(tx, [blocked.pop(job_id) for job_id in doomed], "dependency", culprit)
    free = [row for i, row in blocked.items() if i in fresh and row.unmet_deps == fresh[i] and row.closed_gates == 0]
    return Settled(closed, free, held)


def _by_culprit(
    ends: Mapping[int, End], broken: Sequence[tuple[int, int]], blocked: Mapping[int, Any]
) -> dict[int, list[int]]:
    """Culprit -> blocked dependents; of several culprits the first counts."""
    culprits: dict[int, int] = {}
    for upstream, job_id in broken:
        if job_id in blocked:
            culprits.setdefault(job_id, ends[upstream].culprit)
    found: dict[int, list[int]] = defaultdict(list)
    for job_id, culprit in culprits.items():
        found[culprit].append(job_id)
    return found


def _flip(tx: Transaction, edges: Sequence[tuple[int, int]], *, satisfied: bool) -> Counter[int]:
    """Settle these edges (upstream, dependent); returns how many of each dependent are settled anew."""
    by_upstream: dict[int, list[int]] = defaultdict(list)
    by_dependent: dict[int, list[int]] = defaultdict(list)
    for upstream, job_id in edges:
        by_upstream[upstream].append(job_id)
        by_dependent[job_id].append(upstream)
    one, many = job_deps.c.depends_on_id, job_deps.c.job_id
    groups = by_upstream
    if len(by_dependent) < len(by_upstream):
        one, many, groups = many, one, by_dependent
    for single, others in groups.items():
        changed = by_primary_key(update(job_deps)).where(one == single, many.in_(sorted(others)))
        tx.execute("flip", changed.values(satisfied=satisfied, checked=True))
    return Counter(job_id for _, job_id in edges)


def count(tx: Transaction, waiting: Mapping[int, int], by: int) -> None:
    """`waiting`: job -> so many edges; each is one more, or less, to wait for."""
    for number in sorted(set(waiting.values())):
        ids = sorted(job_id for job_id, edges in waiting.items() if edges == number)
        changed = by_primary_key(update(jobs)).where(jobs.c.id.in_(ids))
        tx.execute("unmet", changed.values(unmet_deps=jobs.c.unmet_deps + by * number))


def not_needed(tx: Transaction, ids: Sequence[int]) -> Sequence[int]:
    """Those of `ids` that wait for a failure which cannot come any more: all of their `not_ok` upstreams have ended,
    and none of them badly."""
    if not ids:
        return []
    upstream = jobs.alias("upstream")
    mine = (job_deps.c.job_id == jobs.c.id, job_deps.c.kind == "not_ok")
    ended_well = or_(upstream.c.state == State.DONE.value, func.coalesce(upstream.c.reason, "") == NOT_NEEDED)
    statement = select(jobs.c.id).where(
        jobs.c.id.in_(sorted(ids)),
        exists().where(*mine),
        not_(exists().where(*mine, is_unset(job_deps.c.satisfied))),
        not_(exists().where(*mine, upstream.c.id == job_deps.c.depends_on_id, not_(ended_well))),
    )
    return tx.execute("not_needed", statement).scalars().all()


def awaits_failure(tx: Transaction, ids: Sequence[int]) -> set[int]:
    """Those of `ids` that are there to follow a bad end."""
    edges = select(job_deps.c.job_id).where(job_deps.c.job_id.in_(ids), job_deps.c.kind == "not_ok").distinct()
    return set(tx.execute("awaits_failure", edges).scalars())


def unsatisfy(
    tx: Transaction, upstreams: Collection[int], dependents: Collection[int] = (), *, skip_locked: bool = False
) -> set[int]:
    """Take back what the ends of `upstreams`, which are open again, had satisfied: for dependents that have not begun
    yet, those edges that follow any end, or a bad one. The same for edges of `dependents`, open again, to open jobs.

    Returns, with `skip_locked`, the upstreams of dependents that others hold, for which nothing was done."""
    upstream = jobs.alias("upstream")
    is_open = exists().where(upstream.c.id == job_deps.c.depends_on_id, upstream.c.state.in_(_values(OPEN)))
    edges = {
        *_undoable(tx, job_deps.c.depends_on_id, upstreams),
        *_undoable(tx, job_deps.c.job_id, dependents, is_open),
    }
    rows = lock_rows(tx, "lock_undone", {job_id for _, job_id in edges}, skip_locked=skip_locked)
    waiting = {row.id for row in rows if State(row.state) in UNCLAIMED and not has_begun(row)}
    move(tx, Event.REOPEN, State.BLOCKED, [row.id for row in rows if row.id in waiting and row.state != "blocked"])
    count(tx, _flip(tx, sorted(edge for edge in edges if edge[1] in waiting), satisfied=False), 1)
    seen = {row.id for row in rows}
    return {upstream for upstream, job_id in edges if job_id not in seen}


def undoable(tx: Transaction, upstreams: Collection[int]) -> set[int]:
    """The dependents that `unsatisfy` is about."""
    return {job_id for _, job_id in _undoable(tx, job_deps.c.depends_on_id, upstreams)}


def _undoable(
    tx: Transaction, column: Any, among: Collection[int], *which: ColumnElement[bool]
) -> Iterator[tuple[int, int]]:
    """(depends_on_id, job_id) of satisfied edges whose dependent has not begun."""
    satisfied = (
        select(job_deps.c.depends_on_id, job_deps.c.job_id)
        .join(jobs, jobs.c.id == job_deps.c.job_id)
        .where(job_deps.c.kind != "ok", is_set(job_deps.c.satisfied), *which)
        .where(jobs.c.state.in_(_values(UNCLAIMED)), jobs.c.attempt == 0, jobs.c.started_at.is_(None))
    )
    ids = sorted(among)
    for chunk in chunks(ids):
        chosen = satisfied.where(column.in_(chunk))
        yield from ((edge.depends_on_id, edge.job_id) for edge in tx.execute("undone", chosen))


def _values(states: Iterable[State]) -> list[str]:
    return sorted(state.value for state in states)


def mark_checked(tx: Transaction, upstreams: Sequence[int], *which: ColumnElement[bool]) -> None:
    """Edges to `upstreams` that `which` describes need no look any more."""
    pending = (job_deps.c.depends_on_id.in_(upstreams), is_unset(job_deps.c.checked))
    _mark(tx, "checked", True, *pending, *which)


def look_again(tx: Transaction, dependents: Sequence[int]) -> None:
    """Have the unsettled edges of these jobs looked at once more: their upstreams may have ended meanwhile."""
    marked = [_mark(tx, "look_again", False, job_deps.c.job_id.in_(chunk), _PENDING) for chunk in chunks(dependents)]
    if any(marked):
        wake(tx)


def recheck(tx: Transaction, upstream: int) -> None:
    """Have the unsettled edges to this one looked at. Those that are not committed yet are looked at in any case, and
    not waited for."""
    _mark(tx, "recheck", False, job_deps.c.depends_on_id == upstream, _PENDING, is_set(job_deps.c.checked))


def _mark(tx: Transaction, what: str, checked: bool, *which: ColumnElement[bool]) -> bool:
    """Each by its whole key: by less, MySQL locks in a caller's transaction what others insert beside it."""
    by_upstream: dict[int, list[int]] = defaultdict(list)
    for row in tx.execute(f"{what}_edges", select(job_deps.c.job_id, job_deps.c.depends_on_id).where(*which)):
        by_upstream[row.depends_on_id].append(row.job_id)
    for upstream, dependents in by_upstream.items():
        for chunk in chunks(dependents):
            edge = (job_deps.c.job_id.in_(chunk), job_deps.c.depends_on_id == upstream)
            tx.execute(what, by_primary_key(update(job_deps)).where(*edge).values(checked=checked))
    return bool(by_upstream)


def unchecked_upstreams(tx: Transaction, after_id: int = 0) -> Sequence[int]:
    """Those that have edges which nobody has looked at since their commit: at most 500, beyond `after_id`."""
    statement = (
        select(job_deps.c.depends_on_id)
        .where(is_unset(job_deps.c.checked), job_deps.c.depends_on_id > after_id)
        .distinct()
        .order_by(job_deps.c.depends_on_id)
        .limit(CHUNK)
    )
    return tx.execute("unchecked", statement).scalars().all()
