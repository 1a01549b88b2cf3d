"""The results that a job waited for, read for its handler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, select

from sqljobs.schema.job_info import StateReason
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Database, Transaction

if TYPE_CHECKING:
    from sqljobs.schema.dialects.contract import Rows


@dataclass(frozen=True)
class Upstream:
    """One job that the running one waited for."""

    id: int
    type: str
    key: str | None = None
    state: str = "done"
    reason: StateReason | None = None
    result: Any = None
    _database: Database | None = field(default=None, repr=False, compare=False)

    def children(self) -> tuple[Upstream, ...]:
        """The members of a container, by id; nothing of a job that has none. Raises `DatabaseUnavailable`."""
        database = self._database
        if database is None:  # made by hand
            return ()
        members = select(*_COLUMNS).where(jobs.c.parent_id == self.id).order_by(jobs.c.id)
        return database.read("members", lambda tx: _all(tx, members, database))


_COLUMNS = (
    *(jobs.c.id, jobs.c.type, jobs.c.key, jobs.c.state, jobs.c.result),
    *(jobs.c.reason, jobs.c.reason_text, jobs.c.reason_job_id),
)


def read_upstream(tx: Transaction, job_id: int, database: Database) -> tuple[Upstream, ...]:
    """One per dependency: `after`, then `after_any`, then `after_failed`, each as given. Their members are read from
    `database`."""
    kinds = case((job_deps.c.kind == "ok", 0), (job_deps.c.kind == "any", 1), else_=2)
    statement = (
        select(*_COLUMNS)
        .join(job_deps, job_deps.c.depends_on_id == jobs.c.id)
        .where(job_deps.c.job_id == job_id)
        .order_by(kinds, job_deps.c.position)
    )
    return _all(tx, statement, database)


def _all(tx: Transaction, statement: Rows, database: Database) -> tuple[Upstream, ...]:
    return tuple(
        Upstream(
            id=row.id,
            type=row.type,
            key=row.key,
            state=row.state,
            reason=None if row.reason is None else StateReason(row.reason, row.reason_text, row.reason_job_id),
            result=row.result,
            _database=database,
        )
        for row in tx.execute("read", statement)
    )
