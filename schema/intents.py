"""What transactions leave for supervisors, written with the end that it follows from: no crash can half-do it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, exists, insert, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.tables import job_intents, jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.wake import wake


def leave(tx: Transaction, kind: str, ids: Collection[int], *, after_id: int = 0, quietly: bool = False) -> None:
    """Have supervisors do this for the jobs `ids`; `kind` and `after_id` as the table says. `quietly`: at their next
    look, since they have just tried."""
    if ids:
        rows = [{"kind": kind, "job_id": job_id, "after_id": after_id} for job_id in ids]
        tx.execute("leave", insert(job_intents), rows)
        if not quietly:
            wake(tx)


def pending(tx: Transaction, kind: str, ids: Collection[int]) -> set[int]:
    """Those of `ids` for which this is still to be done."""
    found: set[int] = set()
    wanted = sorted(ids)
    for chunk in chunks(wanted):
        mine = job_intents.c.job_id.in_(chunk)
        left = select(job_intents.c.job_id).where(mine, job_intents.c.kind == kind)
        found |= set(tx.execute("left", tx.dialect.latest(left, index="job_intents_job")).scalars())
    return found


def take_back(tx: Transaction, kind: str, ids: Collection[int]) -> None:
    """Forget what was left for the jobs `ids`."""
    one = delete(job_intents).where(job_intents.c.job_id == bindparam("left"), job_intents.c.kind == kind)
    if ids:
        tx.execute("take_back", one, [{"left": job_id} for job_id in sorted(ids)])


def is_left(kind: str, job_id: Any = jobs.c.id) -> ColumnElement[bool]:
    """The SQL condition that this is still to be done for a job."""
    return exists().where(job_intents.c.job_id == job_id, job_intents.c.kind == kind)
