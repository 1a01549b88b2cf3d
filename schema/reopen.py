"""Which jobs a bad end had closed, and opening them again when that end is undone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import select, tuple_

from sqljobs.schema.conditions import is_unset
from sqljobs.schema.graph import Edge, edge_of
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.states import Event, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

Keys = set[tuple[str, str]]

# What the end had written and the new beginning takes back.
FRESH = {"reason": None, "reason_text": None, "reason_job_id": None, "ended_at": None, "cancel_requested_at": None}


def closed_by(tx: Transaction, ids: Collection[int], keys: Keys) -> set[int]:
    """Dependents, down the graph, that were cancelled because of `ids` and of nothing else that ended badly.

    Of several with one (type, key) the first is taken, and none whose key is in `keys`: one of them may be open."""
    reopened: set[int] = set()
    frontier = list(ids)
    while frontier:
        closed = (
            select(jobs.c.id, jobs.c.type, jobs.c.key)
            .join(job_deps, jobs.c.id == job_deps.c.job_id)
            .where(
                job_deps.c.depends_on_id.in_(frontier),
                jobs.c.state == State.CANCELLED.value,
                jobs.c.reason == "dependency",
            )
            .order_by(jobs.c.id)
        )
        found = {row.id: row for row in tx.execute("closed", closed) if row.id not in reopened}
        doomed = _still_doomed(tx, found.keys(), reopened | set(ids))
        frontier = [row.id for row in _one_per_key((found[i] for i in found.keys() - doomed), keys)]
        reopened |= set(frontier)
    return reopened


def _one_per_key(rows: Iterable[Any], keys: Keys) -> list[Any]:
    chosen = []
    for row in sorted(rows, key=lambda row: row.id):
        if row.key is None:
            chosen.append(row)
        elif (row.type, row.key) not in keys:
            keys.add((row.type, row.key))
            chosen.append(row)
    return chosen


def _still_doomed(tx: Transaction, candidates: Collection[int], reopened: set[int]) -> set[int]:
    if not candidates:
        return set()
    statement = (
        select(job_deps.c.job_id, job_deps.c.kind, jobs.c.id, jobs.c.state, jobs.c.reason)
        .join(jobs, jobs.c.id == job_deps.c.depends_on_id)
        .where(job_deps.c.job_id.in_(sorted(candidates)), is_unset(job_deps.c.satisfied))
    )
    return {
        row.job_id
        for row in tx.execute("other_upstreams", statement)
        if row.id not in reopened and edge_of(row.kind, row.state, row.reason) is Edge.BROKEN
    }


def revive(tx: Transaction, upstreams: Sequence[int]) -> None:
    """Open again what was enqueued, and so cancelled, after one of `upstreams` had ended badly and before the retry of
    it was seen: that retry could not see the job. `upstreams`: open or done by now."""
    wrongly_closed = (
        select(job_deps.c.depends_on_id)
        .join(jobs, jobs.c.id == job_deps.c.job_id)
        .where(
            job_deps.c.depends_on_id.in_(upstreams),
            is_unset(job_deps.c.checked),
            jobs.c.state == State.CANCELLED.value,
            jobs.c.reason == "dependency",
        )
        .distinct()
    )
    roots = list(tx.execute("wrongly_closed", wrongly_closed).scalars())
    if not roots:
        return
    ids = sorted(closed_by(tx, roots, set()))
    columns = (jobs.c.id, jobs.c.type, jobs.c.key)
    locked = tx.execute(
        "lock_closed", tx.dialect.lock(by_primary_key(select(*columns).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)))
    ).all()
    taken = taken_keys(tx, locked)
    for row in locked:
        if (row.type, row.key) not in taken:
            move(tx, Event.REOPEN, State.BLOCKED, [row.id], {**FRESH, "key_slot": row.key})


def taken_keys(tx: Transaction, rows: Iterable[Any]) -> dict[tuple[str, str], int]:
    """(type, key) -> job that holds it, of those that `rows` have."""
    pairs = [(row.type, row.key) for row in rows if row.key is not None]
    if not pairs:
        return {}
    statement = select(jobs.c.id, jobs.c.type, jobs.c.key).where(tuple_(jobs.c.type, jobs.c.key_slot).in_(pairs))
    return {(row.type, row.key): row.id for row in tx.execute("keys", statement)}
