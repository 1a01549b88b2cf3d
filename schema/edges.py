"""What a job's end does to those that wait for it: unblock them, or cancel them with the reason, down the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, exists, func, not_, select, update

from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.graph import NOT_NEEDED, Edge, closing_text, edge_of
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.reopen import revive
from sqljobs.schema.states import FINAL, UNCLAIMED, Event, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.wake import wake

CHUNK = 500


class End(NamedTuple):
    """A job that has ended in this transaction; its row is locked by us."""

    job_id: int
    state: State
    reason: str | None
    culprit: int


def settle_downstream(tx: Transaction, *ended: End) -> None:
    """Flip the edges to what has `ended`, unblock those that wait for nothing more, cancel those that wait in vain.

    The upstream's row is locked already, so an edge that is committed is seen here, and one that is not will be
    checked by a supervisor after its commit. Dependents are locked by primary key, in order of their ids."""
    ends = list(ended)
    while ends:
        following: list[End] = []
        for current in ends:
            for chunk in _open_edges(tx, current.job_id):
                following += _settle(tx, current, chunk)
        ends = following


def _open_edges(tx: Transaction, upstream: int) -> Iterator[Sequence[tuple[int, str]]]:
    """(job_id, kind) of the unsettled edges to `upstream`, in chunks by job id."""
    last = 0
    while True:
        rows = tx.execute(
            "edges",
            select(job_deps.c.job_id, job_deps.c.kind)
            .where(job_deps.c.depends_on_id == upstream, is_unset(job_deps.c.satisfied), job_deps.c.job_id > last)
            .order_by(job_deps.c.job_id)
            .limit(CHUNK),
        ).all()
        if not rows:
            return
        yield [(row.job_id, row.kind) for row in rows]
        last = rows[-1].job_id


def _settle(tx: Transaction, end: End, edges: Sequence[tuple[int, str]]) -> list[End]:
    """Settle these edges to `end`; returns the dependents that ended with it."""
    _lock(tx, [job_id for job_id, _ in edges])
    standing = {job_id: edge_of(kind, end.state, end.reason) for job_id, kind in edges}
    satisfied = [job_id for job_id, edge in standing.items() if edge is Edge.SATISFIED]
    broken = [job_id for job_id, edge in standing.items() if edge is Edge.BROKEN]
    ended: list[End] = []
    if satisfied:
        _flip(tx, end.job_id, satisfied, satisfied=True)
        count(tx, satisfied, -1)
        ended += _close(tx, not_needed(tx, satisfied), NOT_NEEDED, None)
        unblock(tx, satisfied)
    if broken:
        _flip(tx, end.job_id, broken, satisfied=False)
        ended += _close(tx, broken, "dependency", end.culprit)
    return ended


def _lock(tx: Transaction, ids: Sequence[int]) -> None:
    statement = select(jobs.c.id).where(jobs.c.id.in_(sorted(ids))).order_by(jobs.c.id)
    tx.execute("lock_dependents", tx.dialect.lock(statement)).all()


def _flip(tx: Transaction, upstream: int, dependents: Sequence[int], *, satisfied: bool) -> None:
    tx.execute(
        "flip",
        by_primary_key(update(job_deps))
        .where(job_deps.c.job_id.in_(dependents), job_deps.c.depends_on_id == upstream)
        .values(satisfied=satisfied, checked=True),
    )


def unblock(tx: Transaction, ids: Sequence[int]) -> None:
    """Make those of `ids`, whose rows we hold, ready or scheduled that wait for nothing more."""
    free = _rows(tx, ids, jobs.c.state == State.BLOCKED.value, jobs.c.unmet_deps == 0, jobs.c.closed_gates == 0)
    later = {row.id for row in free if row.run_after is not None and row.run_after > tx.now}
    move(tx, Event.UNBLOCK, State.SCHEDULED, later)
    move(tx, Event.UNBLOCK, State.READY, {row.id for row in free} - later)


def count(tx: Transaction, ids: Sequence[int], by: int) -> None:
    """These jobs wait for so many more edges."""
    changed = by_primary_key(update(jobs)).where(jobs.c.id.in_(sorted(ids)))
    tx.execute("unmet", changed.values(unmet_deps=jobs.c.unmet_deps + by))


def not_needed(tx: Transaction, ids: Sequence[int]) -> Sequence[int]:
    """Those of `ids` that wait for a failure which cannot come any more: all of their `not_ok` upstreams have ended,
    and none of them badly."""
    upstream = jobs.alias("upstream")
    mine = (job_deps.c.job_id == jobs.c.id, job_deps.c.kind == "not_ok")
    bad = and_(
        upstream.c.state.in_((State.FAILED.value, State.CANCELLED.value)),
        func.coalesce(upstream.c.reason, "") != NOT_NEEDED,
    )
    statement = select(jobs.c.id).where(
        jobs.c.id.in_(sorted(ids)),
        jobs.c.state == State.BLOCKED.value,
        exists().where(*mine),
        not_(exists().where(*mine, is_unset(job_deps.c.satisfied))),
        not_(exists().where(*mine, upstream.c.id == job_deps.c.depends_on_id, bad)),
    )
    return tx.execute("not_needed", statement).scalars().all()


def awaits_failure(tx: Transaction, ids: Sequence[int]) -> set[int]:
    """Those of `ids` that are there to follow a bad end."""
    edges = select(job_deps.c.job_id).where(job_deps.c.job_id.in_(ids), job_deps.c.kind == "not_ok").distinct()
    return set(tx.execute("awaits_failure", edges).scalars())


def resettle(tx: Transaction, ids: Sequence[int]) -> None:
    """What follows now for the blocked jobs `ids`, whose rows we hold: some are not needed, others wait for nothing."""
    if ids:
        settle_downstream(tx, *_close(tx, not_needed(tx, ids), NOT_NEEDED, None))
        unblock(tx, ids)


def _close(tx: Transaction, ids: Sequence[int], reason: str, culprit: int | None) -> list[End]:
    """Cancel those of `ids` that are blocked, for their upstreams' sake."""
    closed = [row.id for row in _rows(tx, ids, jobs.c.state == State.BLOCKED.value)] if ids else []
    values = {"reason": reason, "reason_job_id": culprit, "reason_text": closing_text(reason, culprit)}
    move(tx, Event.DOOM, State.CANCELLED, closed, values)
    return [End(job_id, State.CANCELLED, reason, culprit or job_id) for job_id in closed]


def _rows(tx: Transaction, ids: Sequence[int], *where: Any) -> Sequence[Any]:
    return tx.execute("dependents", select(jobs.c.id, jobs.c.run_after).where(jobs.c.id.in_(ids), *where)).all()


def check_edges(tx: Transaction) -> tuple[int, list[int]]:
    """Look once at edges that were committed while their upstream looked open.

    Returns how many upstreams were looked at, and those that have ended, for `settle_ended`. One that is locked, by its
    finalize perhaps, is left for the next time: nothing is waited for, so nothing can be deadlocked. If it is open
    under our lock, its end comes later and will see the edge, which is `checked` from now on."""
    statement = (
        select(job_deps.c.depends_on_id)
        .where(is_unset(job_deps.c.checked))
        .distinct()
        .order_by(job_deps.c.depends_on_id)
        .limit(CHUNK)
    )
    upstreams = tx.execute("unchecked", statement).scalars().all()
    by_id = by_primary_key(select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(upstreams)).order_by(jobs.c.id))
    rows = tx.execute("lock_upstreams", tx.dialect.lock(by_id, skip_locked=True)).all()
    still_open = [row.id for row in rows if State(row.state) not in FINAL]
    revive(tx, still_open)
    unsatisfy(tx, still_open)
    _mark_checked(tx, still_open)
    return len(rows), [row.id for row in rows if State(row.state) in FINAL]


def settle_ended(tx: Transaction, upstream: int) -> None:
    """Settle the edges to one upstream that has ended already. One that is committed meanwhile stays unchecked."""
    columns = (jobs.c.id, jobs.c.state, jobs.c.reason, jobs.c.reason_job_id)
    statement = by_primary_key(select(*columns).where(jobs.c.id == upstream))
    row = tx.execute("lock_upstream", tx.dialect.lock(statement)).one_or_none()
    if row is not None and State(row.state) in FINAL:
        if State(row.state) is State.DONE:
            revive(tx, [upstream])
        culprit = row.reason_job_id if row.reason == "dependency" and row.reason_job_id else row.id
        settle_downstream(tx, End(row.id, State(row.state), row.reason, culprit))
        # What a bad end had satisfied at the enqueue. Others that are committed meanwhile are yet to be settled.
        _mark_checked(tx, [upstream], is_set(job_deps.c.satisfied))


def unsatisfy(tx: Transaction, upstreams: Sequence[int]) -> None:
    """Take back what the ends of `upstreams`, which are open again, had satisfied: for dependents that nobody has
    claimed yet, those that are there to follow any end, or a bad one."""
    undone = (
        select(job_deps.c.job_id, job_deps.c.depends_on_id)
        .join(jobs, jobs.c.id == job_deps.c.job_id)
        .where(
            job_deps.c.depends_on_id.in_(upstreams),
            job_deps.c.kind != "ok",
            is_set(job_deps.c.satisfied),
            jobs.c.state.in_([state.value for state in UNCLAIMED]),
            jobs.c.attempt == 0,
        )
    )
    edges = tx.execute("undone", undone).all()
    if not edges:
        return
    ids = sorted({edge.job_id for edge in edges})
    statement = select(jobs.c.id, jobs.c.state, jobs.c.attempt).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
    rows = tx.execute("lock_undone", tx.dialect.lock(by_primary_key(statement))).all()
    unclaimed = {row.id for row in rows if State(row.state) in UNCLAIMED and row.attempt == 0}
    waiting = [row.id for row in rows if row.id in unclaimed and State(row.state) is not State.BLOCKED]
    move(tx, Event.REOPEN, State.BLOCKED, waiting)
    for upstream in sorted({edge.depends_on_id for edge in edges}):
        mine = [edge.job_id for edge in edges if edge.depends_on_id == upstream and edge.job_id in unclaimed]
        if mine:
            _flip(tx, upstream, mine, satisfied=False)
            count(tx, mine, 1)


def _mark_checked(tx: Transaction, upstreams: Sequence[int], *which: ColumnElement[bool]) -> None:
    pending = select(job_deps.c.job_id, job_deps.c.depends_on_id).where(
        job_deps.c.depends_on_id.in_(upstreams), is_unset(job_deps.c.checked), *which
    )
    by_upstream: dict[int, list[int]] = {}
    for row in tx.execute("unchecked_edges", pending):
        by_upstream.setdefault(row.depends_on_id, []).append(row.job_id)
    for upstream, dependents in by_upstream.items():
        for start in range(0, len(dependents), CHUNK):
            edge = (job_deps.c.job_id.in_(dependents[start : start + CHUNK]), job_deps.c.depends_on_id == upstream)
            tx.execute("checked", by_primary_key(update(job_deps)).where(*edge).values(checked=True))


def look_again(tx: Transaction, dependents: Sequence[int]) -> None:
    """Have the unsettled edges of these jobs looked at once more: their upstreams may have ended meanwhile."""
    statement = by_primary_key(update(job_deps)).where(
        job_deps.c.job_id.in_(dependents), is_unset(job_deps.c.satisfied)
    )
    if tx.execute("look_again", statement.values(checked=False)).rowcount:
        wake(tx)
