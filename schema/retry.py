"""Start ended jobs again, and reopen the dependents that their bad end had closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from sqljobs.schema.conditions import in_pairs, is_unset
from sqljobs.schema.edges import look_again
from sqljobs.schema.errors import Refused, UnknownJob
from sqljobs.schema.graph import Edge, edge_of
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.states import Event, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

_FRESH = {"reason": None, "reason_text": None, "reason_job_id": None, "ended_at": None, "cancel_requested_at": None}


def retry(tx: Transaction, ids: Sequence[int], *, dry_run: bool = False) -> list[int]:
    """Retry all of `ids`, or none; returns their ids and those of the dependents that this reopens.

    `attempt` stays; `max_attempts` becomes `attempt` plus the number first given. Raises `UnknownJob`, and `Refused`
    for a job that is open or done, that was cancelled because of another, or whose key was taken meanwhile."""
    wanted = sorted(set(ids))
    rows = {row.id: row for row in _lock(tx, wanted)}
    for job_id in wanted:
        if job_id not in rows:
            raise UnknownJob(f"there is no job {job_id}")
        _refuse_unless_ended_badly(rows[job_id])
    reopened = _closed_by(tx, wanted)
    rows |= {row.id: row for row in _lock(tx, sorted(reopened))}
    _refuse_taken_keys(tx, list(rows.values()))
    if not dry_run:
        for job_id, row in rows.items():
            event, target = _target(tx, row, job_id in reopened)
            limit = row.attempt + row.first_max_attempts
            move(tx, event, target, [job_id], {**_FRESH, "max_attempts": limit, "key_slot": row.key})
        look_again(tx, sorted(rows))
    return wanted + sorted(reopened)


def _lock(tx: Transaction, ids: Sequence[int]) -> Sequence[Any]:
    columns = (
        *(jobs.c.id, jobs.c.type, jobs.c.state, jobs.c.reason, jobs.c.reason_job_id, jobs.c.key, jobs.c.key_slot),
        *(jobs.c.attempt, jobs.c.first_max_attempts, jobs.c.run_after, jobs.c.unmet_deps),
    )
    if not ids:
        return []
    statement = select(*columns).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
    return tx.execute("lock", tx.dialect.lock(by_primary_key(statement))).all()


def _refuse_unless_ended_badly(row: Any) -> None:
    if row.state not in (State.FAILED.value, State.CANCELLED.value):
        raise Refused(f"job {row.id} cannot be retried: it is {row.state}")
    if row.reason == "dependency":
        raise Refused(
            f"job {row.id} was cancelled because of job {row.reason_job_id}:"
            f" retry {row.reason_job_id}, which reopens it"
        )


def _closed_by(tx: Transaction, ids: Sequence[int]) -> set[int]:
    """Dependents, down the graph, that were cancelled because of `ids` and of nothing else that ended badly."""
    reopened: set[int] = set()
    frontier = list(ids)
    while frontier:
        statement = (
            select(job_deps.c.job_id)
            .join(jobs, jobs.c.id == job_deps.c.job_id)
            .where(
                job_deps.c.depends_on_id.in_(frontier),
                jobs.c.state == State.CANCELLED.value,
                jobs.c.reason == "dependency",
            )
        )
        candidates = set(tx.execute("closed", statement).scalars()) - reopened
        frontier = sorted(candidates - _still_doomed(tx, candidates, reopened | set(ids)))
        reopened |= set(frontier)
    return reopened


def _still_doomed(tx: Transaction, candidates: set[int], reopened: set[int]) -> set[int]:
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


def _refuse_taken_keys(tx: Transaction, rows: Sequence[Any]) -> None:
    pairs = [(row.type, row.key) for row in rows if row.key is not None]
    if not pairs:
        return
    ours = {row.id for row in rows}
    statement = select(jobs.c.id, jobs.c.key).where(in_pairs(jobs.c.type, jobs.c.key_slot, pairs))
    for row in tx.execute("keys", statement):
        if row.id not in ours:
            raise Refused(f"the key {row.key!r} is taken by job {row.id} meanwhile: cancel that one, or leave it")


def _target(tx: Transaction, row: Any, reopened: bool) -> tuple[Event, State]:
    if reopened:
        return Event.REOPEN, State.BLOCKED
    if row.unmet_deps:
        return Event.RETRY, State.BLOCKED
    later = row.run_after is not None and row.run_after > tx.now
    return Event.RETRY, State.SCHEDULED if later else State.READY
