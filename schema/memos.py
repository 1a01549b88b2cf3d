"""The results of a job's steps: written once each, under the fence of the attempt that has run the step."""

from __future__ import annotations

from sqlalchemy import insert, select, type_coerce

from sqljobs.schema.columns import JsonText, LongText
from sqljobs.schema.fenced import lock_running, wait_for_lost_session
from sqljobs.schema.moves import Fence
from sqljobs.schema.state_tables import job_steps
from sqljobs.schema.transactions import NotCommitted, Transaction


def read_names(tx: Transaction, job_id: int) -> set[str]:
    """The steps of the job that need not run again. Its running attempt alone can add to them."""
    return set(tx.execute("names", select(job_steps.c.name).where(job_steps.c.job_id == job_id)).scalars())


def read_memo(tx: Transaction, job_id: int, name: str) -> JsonText | None:
    """The result of a step that has one, as it was written."""
    statement = select(type_coerce(job_steps.c.value, LongText)).where(
        job_steps.c.job_id == job_id, job_steps.c.name == name
    )
    found = tx.execute("memo", statement).scalar_one()
    return None if found is None else JsonText(found)


def write_memo(tx: Transaction, fence: Fence, name: str, value: JsonText | None) -> bool:
    """Remember the result of the step `name`; returns True. Raises `NoRunningJob` when the attempt is over."""
    lock_running(tx, fence)
    row = {"job_id": fence.job_id, "name": name, "attempt": fence.attempt, "value": value, "written_at": tx.now}
    tx.execute("write", insert(job_steps).values(row))
    return True


def settle_memo(tx: Transaction, fence: Fence, name: str) -> bool | type[NotCommitted]:
    """After a COMMIT of unknown outcome: True when the step has its result."""
    wait_for_lost_session(tx, fence)
    statement = select(job_steps.c.attempt).where(job_steps.c.job_id == fence.job_id, job_steps.c.name == name)
    return True if tx.execute("read", statement).scalar() == fence.attempt else NotCommitted
