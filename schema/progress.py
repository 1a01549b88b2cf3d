"""How far running jobs say they have come: columns of their rows, for people to look at. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update

from sqljobs.schema.conditions import is_set
from sqljobs.schema.job_info import Progress
from sqljobs.schema.moves import Fence, by_primary_key
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction

MOST_SHOWN = 20


@dataclass(frozen=True)
class SeenProgress:
    """How far one running job has come."""

    id: int
    type: str
    progress: Progress


def progress_values(progress: Progress | None) -> dict[str, Any]:
    """The columns of a job's row; none where nothing was said."""
    if progress is None:
        return {}
    return {"progress_done": progress.done, "progress_total": progress.total, "progress_note": progress.note}


def write_progress(tx: Transaction, fence: Fence, progress: Progress) -> bool:
    """Say it, unless the attempt is over; returns whether it was said."""
    statement = by_primary_key(update(jobs)).where(fence.holds()).values(progress_values(progress))
    return tx.execute("write", statement).rowcount == 1


def read_progress(tx: Transaction, ids: Sequence[int] | None = None) -> list[SeenProgress]:
    """The running jobs that have said something, those of `ids` alone where given; the first 20 by id."""
    columns = (jobs.c.id, jobs.c.type, jobs.c.progress_done, jobs.c.progress_total, jobs.c.progress_note)
    statement = select(*columns).where(is_set(jobs.c.in_flight), jobs.c.progress_done.is_not(None))
    if ids is not None:
        statement = statement.where(jobs.c.id.in_(sorted(ids)[:MOST_SHOWN]))
    rows = tx.execute("progress", statement.order_by(jobs.c.id).limit(MOST_SHOWN))
    return [
        SeenProgress(row.id, row.type, Progress(row.progress_done, row.progress_total, row.progress_note))
        for row in rows
    ]
