"""The results that a job waited for, read for its handler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, select

from sqljobs.schema.job_info import StateReason
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction


@dataclass(frozen=True)
class Upstream:
    """One job that the running one waited for."""

    id: int
    type: str
    key: str | None
    state: str
    reason: StateReason | None
    result: Any


def read_upstream(tx: Transaction, job_id: int) -> tuple[Upstream, ...]:
    """One per dependency: `after`, then `after_any`, then `after_failed`, each as given."""
    kinds = case((job_deps.c.kind == "ok", 0), (job_deps.c.kind == "any", 1), else_=2)
    columns = (
        *(jobs.c.id, jobs.c.type, jobs.c.key, jobs.c.state, jobs.c.result),
        *(jobs.c.reason, jobs.c.reason_text, jobs.c.reason_job_id),
    )
    statement = (
        select(*columns)
        .join(job_deps, job_deps.c.depends_on_id == jobs.c.id)
        .where(job_deps.c.job_id == job_id)
        .order_by(kinds, job_deps.c.position)
    )
    return tuple(
        Upstream(
            id=row.id,
            type=row.type,
            key=row.key,
            state=row.state,
            reason=None if row.reason is None else StateReason(row.reason, row.reason_text, row.reason_job_id),
            result=row.result,
        )
        for row in tx.execute("read", statement)
    )
