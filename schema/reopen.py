"""What a bad end had closed, opened again when that end is undone: followers, members, the containers around."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import case, null, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.ends import children_of, has_begun, read_rows
from sqljobs.schema.families import ancestors, find_around, parents_of
from sqljobs.schema.graph import NOT_NEEDED, Children, Edge, edge_of
from sqljobs.schema.intents import leave, pending, take_back
from sqljobs.schema.members import counts_members, write_counters
from sqljobs.schema.moves import move
from sqljobs.schema.snapshots import sees_old_rows
from sqljobs.schema.states import FINAL, Event, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

Keys = set[tuple[str, str]]

_GRANTED = jobs.c.attempt + jobs.c.first_max_attempts

# What the end had written and the new beginning takes back.
AFRESH = {
    "reason": None,
    "reason_text": None,
    "reason_job_id": None,
    "ended_at": None,
    "cancel_requested_at": None,
    "result": case((jobs.c.attempt > 0, jobs.c.result), else_=null()),  # what a job that has spawned gave, it keeps
    "key_slot": jobs.c.key,
    "max_attempts": case((is_set(jobs.c.container), jobs.c.max_attempts), else_=_GRANTED),
}


@dataclass
class Reopening:
    """What is opened again with `roots`. `doomed`: jobs that were cancelled because of them, or with a container that
    is opened again; `around`: the containers around all these that had ended."""

    roots: set[int]
    doomed: set[int] = field(default_factory=set)
    around: set[int] = field(default_factory=set)

    @property
    def all(self) -> set[int]:
        return self.roots | self.doomed | self.around


def find_closed(
    tx: Transaction, roots: Collection[int], keys: Keys, *, around_roots: bool = True, ended: Collection[int] = ()
) -> Reopening:
    """What the bad ends of `roots` have closed, through followers, members and containers, and nothing else closes.

    Of several jobs with one (type, key) the first is taken, and none whose key is in `keys`: one may be open. Without
    `around_roots` the roots are open already, and the containers around them are no matter of theirs. `ended`:
    containers around that are known to have ended meanwhile."""
    found = Reopening(set(roots))
    if around_roots:
        found.around = (
            {row.id for row in ancestors(tx, roots) if State(row.state) in FINAL} | set(ended)
        ) - found.roots
    frontier = found.all
    candidates: dict[int, Any] = {}
    while frontier:
        candidates |= {row.id: row for row in _closed(tx, frontier) if row.id not in found.roots | found.doomed}
        doomed = still_doomed(tx, candidates, found.all).keys()
        enclosed = find_around(tx, candidates, partial(is_closed_for_others, reopened=found.all)).keys() - doomed
        open_again = (candidates[i] for i in sorted(candidates.keys() - doomed - enclosed))
        new = {row.id for row in _one_per_key(open_again, keys)}
        found.doomed |= new
        around = {row.id for row in ancestors(tx, new) if State(row.state) in FINAL} - found.all
        found.around |= around
        frontier = new | around
        # What is around these may be opened yet; the others are met again when what they wait for is.
        candidates = {i: candidates[i] for i in enclosed}
    return found


def is_closed_for_others(row: Any, reopened: Collection[int]) -> bool:
    """Whether this has ended because of another job, and is not `reopened`: what is in it stays closed, too."""
    return State(row.state) in FINAL and row.reason in ("dependency", NOT_NEEDED) and row.id not in reopened


def _closed(tx: Transaction, frontier: Collection[int]) -> Iterable[Any]:
    """Jobs that were cancelled for a dependency, behind one of `frontier` or in it."""
    columns = (jobs.c.id, jobs.c.type, jobs.c.key, jobs.c.parent_id)
    doomed = (jobs.c.state == State.CANCELLED.value, jobs.c.reason == "dependency")
    ids = sorted(frontier)
    for chunk in chunks(ids):
        behind = select(*columns).join(job_deps, jobs.c.id == job_deps.c.job_id)
        yield from tx.execute("closed", behind.where(job_deps.c.depends_on_id.in_(chunk), *doomed).order_by(jobs.c.id))
        # What ended badly by itself had not closed its members; those were closed for reasons of their own.
        inside = select(*columns).where(jobs.c.parent_id.in_(chunk), *doomed)
        yield from tx.execute("closed_members", inside.order_by(jobs.c.id))


def _one_per_key(rows: Iterable[Any], keys: Keys) -> list[Any]:
    chosen = []
    for row in rows:
        if row.key is None:
            chosen.append(row)
        elif (row.type, row.key) not in keys:
            keys.add((row.type, row.key))
            chosen.append(row)
    return chosen


def still_doomed(tx: Transaction, candidates: Collection[int], reopened: Collection[int]) -> dict[int, Any]:
    """Job -> (id, state, ...) of one that it waits for, which has ended badly and is not `reopened`."""
    found: dict[int, Any] = {}
    ids = sorted(candidates)
    for chunk in chunks(ids):
        statement = (
            select(job_deps.c.job_id, job_deps.c.kind, jobs.c.id, jobs.c.state, jobs.c.reason)
            .join(jobs, jobs.c.id == job_deps.c.depends_on_id)
            .where(job_deps.c.job_id.in_(chunk), is_unset(job_deps.c.satisfied))
        )
        for row in tx.execute("other_upstreams", statement):
            if row.id not in reopened and edge_of(row.kind, row.state, row.reason) is Edge.BROKEN:
                found[row.job_id] = row
    return found


def to_lock(tx: Transaction, found: Reopening) -> set[int]:
    """All that is to be opened, and the parents that count them."""
    return found.all | {parent for parent in parents_of(tx, found.all).values() if parent is not None}


def reopen(tx: Transaction, found: Reopening, rows: Mapping[int, Any], *, roots: bool = True) -> None:
    """Open again what was found, its rows being ours: containers that had begun wait, all else is blocked and to be
    settled next, since nothing may block it any more. Without `roots` these are only counted as open."""
    found.doomed = {i for i in found.doomed if rows[i].state == State.CANCELLED.value}
    found.around = {i for i in found.around if State(rows[i].state) in FINAL}
    _count_back(tx, found, rows)
    after = _states_after(found, rows)
    moves = [(Event.REOPEN, found.doomed | found.around), (Event.RETRY, found.roots if roots else set())]
    for event, ids in moves:
        for gated in (False, True):
            for target in (State.BLOCKED, State.WAITING):
                chosen = [i for i in ids if after[i] is target and _is_gated(i, rows, after) is gated]
                move(tx, event, target, chosen, {**AFRESH, "closed_gates": int(gated)})


def _count_back(tx: Transaction, found: Reopening, rows: Mapping[int, Any]) -> None:
    """In their parents they are open again; what was not counted yet need not be."""
    uncounted = pending(tx, "child", found.all)
    if sees_old_rows(tx):  # what has ended, or was counted, since the snapshot, is for supervisors to tell
        uncounted |= _ended_since(tx, found, rows)
        for job_id in sorted(uncounted):
            leave(tx, "members", {rows[job_id].parent_id} - {None}, after_id=job_id)
    else:
        take_back(tx, "child", uncounted)
    counted: dict[int, Children] = {}
    for job_id in found.all - uncounted:
        parent = rows[job_id].parent_id
        if parent is not None and parent not in rows:  # it runs, and may end before it can see this
            leave(tx, "members", [parent], after_id=job_id)
        elif parent is not None and counts_members(rows[parent]):
            children = counted.get(parent, children_of(rows[parent]))
            counted[parent] = children.without_end(rows[job_id].state, rows[job_id].reason)
    write_counters(tx, counted)


def _ended_since(tx: Transaction, found: Reopening, rows: Mapping[int, Any]) -> set[int]:
    seen = {row.id: row.ended_at for row in read_rows(tx, "seen", found.all)}
    return {job_id for job_id in found.all if seen.get(job_id) != rows[job_id].ended_at}


def _states_after(found: Reopening, rows: Mapping[int, Any]) -> dict[int, State]:
    """What each becomes."""
    after: dict[int, State] = {job_id: State(row.state) for job_id, row in rows.items() if job_id not in found.all}
    for job_id in found.all:
        waits = rows[job_id].container and has_begun(rows[job_id])
        after[job_id] = State.WAITING if waits else State.BLOCKED
    return after


def _is_gated(job_id: int, rows: Mapping[int, Any], after: Mapping[int, State]) -> bool:
    parent = rows[job_id].parent_id
    return parent is not None and after.get(parent) is State.BLOCKED and bool(rows[parent].container)
