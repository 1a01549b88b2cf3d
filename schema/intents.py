"""What transactions leave for supervisors, written with the end that it follows from: no crash can half-do it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, exists, insert, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.snapshots import sees_old_rows
from sqljobs.schema.states import OPEN
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
    """Those of `ids` for which this is still to be done, as the transaction sees it. Without a lock: MySQL would keep
    others from leaving anything as long as a caller's transaction is open."""
    found: set[int] = set()
    wanted = sorted(ids)
    for chunk in chunks(wanted):
        mine = job_intents.c.job_id.in_(chunk)
        left = select(job_intents.c.job_id).where(mine, job_intents.c.kind == kind)
        found |= set(tx.execute("left", left).scalars())
    return found


def joined(tx: Transaction, containers: Collection[int]) -> set[int]:
    """Those of `containers` that have members which they are yet to count. What is not committed is not waited for."""
    found: set[int] = set()
    ids = sorted(containers)
    for chunk in chunks(ids):
        new = (job_intents.c.kind == "members", job_intents.c.after_id > 0)
        statement = select(job_intents.c.job_id).where(job_intents.c.job_id.in_(chunk), *new)
        found |= set(tx.execute("joined", statement).scalars())
    return found


def forget_joined(tx: Transaction, container: int) -> None:
    """Members that this one has got are counted next."""
    if sees_old_rows(tx):  # what is gone already could not be deleted without locking what is around it
        return
    mine = (job_intents.c.job_id == container, job_intents.c.kind == "members", job_intents.c.after_id > 0)
    forget(tx, tx.execute("joined", select(job_intents.c.id).where(*mine)).scalars().all())


def forget_undone(tx: Transaction, container: int) -> None:
    """Ends of members that were undone before they were counted need not be, and the next ones of these shall be."""
    is_open = jobs.c.state.in_(sorted(state.value for state in OPEN))
    undone = select(job_intents.c.id).join(jobs, jobs.c.id == job_intents.c.job_id)
    statement = undone.where(jobs.c.parent_id == container, job_intents.c.kind == "child", is_open)
    forget(tx, tx.execute("undone", statement).scalars().all())


def take_back(tx: Transaction, kind: str, ids: Collection[int]) -> None:
    """Forget what was left for the jobs `ids`."""
    wanted = sorted(ids)
    for chunk in chunks(wanted):
        mine = select(job_intents.c.id).where(job_intents.c.job_id.in_(chunk), job_intents.c.kind == kind)
        forget(tx, tx.execute("left", mine).scalars().all())


def forget(tx: Transaction, intents: Sequence[int]) -> None:
    """Delete these, one by one: otherwise MySQL walks over, and waits for, what others have left."""
    if intents:
        one = delete(job_intents).where(job_intents.c.id == bindparam("done"))
        tx.execute("forget", one, [{"done": intent} for intent in sorted(intents)])


def is_left(kind: str, job_id: Any = jobs.c.id) -> ColumnElement[bool]:
    """The SQL condition that this is still to be done for a job."""
    return exists().where(job_intents.c.job_id == job_id, job_intents.c.kind == kind)
