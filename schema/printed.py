"""Where what an attempt prints can be read: its supervisor's process while it runs, its row when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, select

from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.errors import UnknownJob
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Transaction


@dataclass(frozen=True)
class Printer:
    """A supervisor that may hold the output. Process and start are valid on `boot_id`."""

    host: str
    boot_id: str
    pid: int
    start_ticks: int


@dataclass(frozen=True)
class Printed:
    """One attempt. `attempt` is 0 before the first one. `latest`: the job's newest attempt. `pid`: the child's, once it
    runs. `ended`: its end is written; `reaped`: the end of what it printed is in `log_tail`, too."""

    state: str
    latest: int
    attempt: int
    pid: int | None
    ended: bool
    reaped: bool
    log_tail: str | None
    printer: Printer | None

    @property
    def more_may_come(self) -> bool:
        """Whether the job may print again, in this attempt or a later one."""
        return not (self.state in FINAL or self.state == State.WAITING)


def read_printed(tx: Transaction, job_id: int, attempt: int | None = None) -> Printed:
    """What is known of this attempt's output; of the latest, unless one is named. Raises `UnknownJob`."""
    wanted = jobs.c.attempt if attempt is None else attempt
    statement = (
        select(
            jobs.c.state,
            jobs.c.attempt.label("latest"),
            job_attempts.c.attempt,
            job_attempts.c.owner,
            job_attempts.c.pid,
            job_attempts.c.ended_at,
            job_attempts.c.cpu_seconds,
            job_attempts.c.log_tail,
        )
        .outerjoin(job_attempts, and_(job_attempts.c.job_id == jobs.c.id, job_attempts.c.attempt == wanted))
        .where(jobs.c.id == job_id)
    )
    row = tx.execute("printed", statement).one_or_none()
    if row is None:
        raise UnknownJob(f"there is no job {job_id}")
    return Printed(
        state=row.state,
        latest=row.latest,
        attempt=row.attempt or 0,
        pid=row.pid,
        ended=row.ended_at is not None,
        reaped=row.cpu_seconds is not None,  # of the evidence that is written after the reaping, always there
        log_tail=row.log_tail,
        printer=None if row.owner is None or row.ended_at is not None else _printer(tx, row.owner),
    )


def _printer(tx: Transaction, owner: str) -> Printer | None:
    found: Any = tx.execute(
        "printer", select(job_supervisors).where(job_supervisors.c.id == owner.rpartition("/")[2])
    ).one_or_none()
    return None if found is None else Printer(found.host, found.boot_id, found.pid, found.start_ticks)
