"""Start ended jobs again, and reopen the dependents that their bad end had closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from sqljobs.schema.edges import awaits_failure, look_again, resettle, unsatisfy
from sqljobs.schema.errors import Refused, UnknownJob
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.reopen import FRESH, closed_by, taken_keys
from sqljobs.schema.states import Event, State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction


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
    reopened = closed_by(tx, wanted, {(row.type, row.key) for row in rows.values() if row.key is not None})
    rows |= {row.id: row for row in _lock(tx, sorted(reopened))}
    _refuse_taken_keys(tx, list(rows.values()))
    if not dry_run:
        follow_failures = awaits_failure(tx, sorted(rows))
        for job_id, row in rows.items():
            event, target = _target(tx, row, job_id in reopened, job_id in follow_failures)
            limit = row.attempt + row.first_max_attempts
            move(tx, event, target, [job_id], {**FRESH, "max_attempts": limit, "key_slot": row.key})
        unsatisfy(tx, sorted(rows))
        look_again(tx, sorted(rows))
        resettle(tx, [job_id for job_id, row in rows.items() if job_id in follow_failures and not row.unmet_deps])
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


def _refuse_taken_keys(tx: Transaction, rows: Sequence[Any]) -> None:
    ours = {row.id for row in rows}
    holders: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.key is not None and holders.setdefault((row.type, row.key), row.id) != row.id:
            first = holders[row.type, row.key]
            raise Refused(f"jobs {first} and {row.id} have one key, {row.key!r}: retry only one of them")
    for (_, key), holder in taken_keys(tx, rows).items():
        if holder not in ours:
            raise Refused(f"the key {key!r} is taken by job {holder} meanwhile: cancel that one, or leave it")


def _target(tx: Transaction, row: Any, reopened: bool, follows_failures: bool) -> tuple[Event, State]:
    if reopened:
        return Event.REOPEN, State.BLOCKED
    if row.unmet_deps or follows_failures:  # those may be gone: resettle looks
        return Event.RETRY, State.BLOCKED
    later = row.run_after is not None and row.run_after > tx.now
    return Event.RETRY, State.SCHEDULED if later else State.READY
