"""Read many jobs for a list: what stands in their own rows, without arguments, results and attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.conditions import is_unset
from sqljobs.schema.errors import UnknownJob
from sqljobs.schema.held_jobs import held_reasons
from sqljobs.schema.job_info import ChildCounts, Progress, StateReason, as_plain
from sqljobs.schema.jobs_read import reason_of
from sqljobs.schema.tables import COUNTERS, job_deps, jobs
from sqljobs.schema.transactions import Transaction


@dataclass(frozen=True)
class ListedJob:
    """One job in a list: fields of `JobInfo`. Times are aware UTC."""

    id: int
    type: str
    state: str
    reason: StateReason | None
    attempt: int
    max_attempts: int
    group: str
    weight: int
    priority: int
    key: str | None
    container: bool
    parent: int | None
    child_counts: ChildCounts
    progress: Progress | None
    run_after: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        plain = as_plain(self)
        assert isinstance(plain, dict)
        return plain


def list_jobs(tx: Transaction, ids: Sequence[int]) -> list[ListedJob]:
    """The jobs `ids`, in that order. Raises `UnknownJob` for one that is not there."""
    found: dict[int, ListedJob] = {}
    for chunk in chunks(ids):
        found |= _read_chunk(tx, chunk)
    for job_id in ids:
        if job_id not in found:
            raise UnknownJob(f"there is no job {job_id}")
    return [found[job_id] for job_id in ids]


def _read_chunk(tx: Transaction, ids: Sequence[int]) -> dict[int, ListedJob]:
    columns = (
        *(jobs.c.id, jobs.c.type, jobs.c.state, jobs.c.reason, jobs.c.reason_text, jobs.c.reason_job_id),
        *(jobs.c.attempt, jobs.c.max_attempts, jobs.c.group_key, jobs.c.weight, jobs.c.priority, jobs.c.key),
        *(jobs.c.container, jobs.c.parent_id, *COUNTERS, jobs.c.run_after),
        *(jobs.c.progress_done, jobs.c.progress_total, jobs.c.progress_note),
        *(jobs.c.created_at, jobs.c.updated_at, jobs.c.started_at, jobs.c.ended_at, jobs.c.uses),
    )
    rows = tx.execute("list", select(*columns).where(jobs.c.id.in_(ids))).all()
    waits_for = _first_unmet(tx, [row.id for row in rows if row.state == "blocked"])
    held = held_reasons(tx, rows)
    return {row.id: _listed(row, held.get(row.id) or reason_of(row, waits_for.get(row.id, []))) for row in rows}


def _first_unmet(tx: Transaction, ids: Sequence[int]) -> dict[int, list[Any]]:
    """The first edge of each job that is not satisfied; some jobs have ten thousand."""
    place = func.row_number().over(partition_by=job_deps.c.job_id, order_by=job_deps.c.position).label("place")
    unmet = (
        select(job_deps.c.job_id, job_deps.c.depends_on_id, job_deps.c.satisfied, place)
        .where(job_deps.c.job_id.in_(ids), is_unset(job_deps.c.satisfied))
        .subquery("unmet")
    )
    if not ids:
        return {}
    return {row.job_id: [row] for row in tx.execute("unmet", select(unmet).where(unmet.c.place == 1))}


def _listed(row: Any, reason: StateReason | None) -> ListedJob:
    done = row.progress_done
    return ListedJob(
        id=row.id,
        type=row.type,
        state=row.state,
        reason=reason,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        group=row.group_key,
        weight=row.weight,
        priority=row.priority,
        key=row.key,
        container=bool(row.container),
        parent=row.parent_id,
        child_counts=ChildCounts(row.done_children, row.failed_children, row.cancelled_children, row.open_children),
        progress=None if done is None else Progress(done, row.progress_total, row.progress_note),
        run_after=row.run_after,
        created_at=row.created_at,
        updated_at=row.updated_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
