"""What a handler says of how far it has come: one row per job, written under the fence of the attempt that says it."""

from __future__ import annotations

from sqlalchemy import select, type_coerce

from sqljobs.schema.columns import JsonText, LongText
from sqljobs.schema.fenced import lock_running, wait_for_lost_session
from sqljobs.schema.moves import Fence
from sqljobs.schema.state_tables import job_checkpoints
from sqljobs.schema.transactions import NotCommitted, Transaction


def write_checkpoint(tx: Transaction, fence: Fence, data: JsonText | None) -> bool:
    """Put `data` in the place of what was there; returns True. Raises `NoRunningJob` when the attempt is over."""
    lock_running(tx, fence)
    written = {"attempt": fence.attempt, "data": data, "written_at": tx.now}
    tx.step("write")
    tx.dialect.upsert(tx.conn, job_checkpoints, {"job_id": fence.job_id, **written}, written)
    return True


def settle_checkpoint(tx: Transaction, fence: Fence, data: JsonText | None) -> bool | type[NotCommitted]:
    """After a COMMIT of unknown outcome: True when this attempt has written just that."""
    wait_for_lost_session(tx, fence)
    text = type_coerce(job_checkpoints.c.data, LongText).label("text")
    statement = select(job_checkpoints.c.attempt, text).where(job_checkpoints.c.job_id == fence.job_id)
    row = tx.execute("read", statement).first()
    return True if row is not None and (row.attempt, row.text) == (fence.attempt, data) else NotCommitted


def read_checkpoint(tx: Transaction, job_id: int) -> JsonText | None:
    """What was last written, as it was; None where nothing was."""
    text = type_coerce(job_checkpoints.c.data, LongText)
    found = tx.execute("read", select(text).where(job_checkpoints.c.job_id == job_id)).scalar()
    return None if found is None else JsonText(found)
