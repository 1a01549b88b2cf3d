"""What a running attempt writes besides its end: in transactions that hold its job's row, under its fence."""

from __future__ import annotations

from sqlalchemy import select

from sqljobs.schema.errors import NoRunningJob
from sqljobs.schema.moves import Fence, by_primary_key
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction

OVER = "this attempt is over: its lease was lost, or its end is written"


def lock_running(tx: Transaction, fence: Fence) -> None:
    """Lock the row of the job, so that nothing is written for an attempt whose end is. Raises `NoRunningJob`."""
    own = select(jobs.c.id).where(fence.holds())
    if tx.execute("lock", tx.dialect.lock(own)).first() is None:
        raise NoRunningJob(OVER)


def check_running(tx: Transaction, fence: Fence) -> None:
    """The same without a lock, before work that would be in vain."""
    own = by_primary_key(select(jobs.c.id).where(fence.holds()))
    if tx.execute("check", own).first() is None:
        raise NoRunningJob(OVER)


def wait_for_lost_session(tx: Transaction, fence: Fence) -> None:
    """The server may carry out a lost COMMIT only now; until then the lost session holds the job's row."""
    tx.execute("wait", tx.dialect.lock(select(jobs.c.id).where(jobs.c.id == fence.job_id))).all()
