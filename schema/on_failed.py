"""The option `on_failed`: the transaction that makes a job `failed` enqueues another that is told of it."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from sqlalchemy import select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.enqueue import enqueue_many
from sqljobs.schema.specs import Defaults, JobSpec
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Transaction

# The batch of a job that tells of a failure begins with it.
TELLS = "on_failed:"

_COLUMNS = (
    *(jobs.c.id, jobs.c.type, jobs.c.group_key, jobs.c.weight, jobs.c.priority, jobs.c.attempt),
    *(jobs.c.reason, jobs.c.reason_text, jobs.c.on_failed, jobs.c.batch, jobs.c.args),
)


def tell_of_failures(tx: Transaction, job_ids: Collection[int]) -> None:
    """For those of these jobs, which have become `failed` in this transaction, that have `on_failed`: enqueue that type
    with `{job_id, type, group, cause, error}`, in the job's group, with its weight and priority."""
    specs = []
    for chunk in chunks(sorted(job_ids)):
        statement = select(*_COLUMNS).where(jobs.c.id.in_(chunk), jobs.c.on_failed.is_not(None)).order_by(jobs.c.id)
        specs += [_spec(tx, row) for row in tx.execute("on_failed", statement).all() if not _goes_round(tx, row)]
    if specs:
        batch = TELLS + uuid.uuid4().hex[len(TELLS) :]
        enqueue_many(tx, specs, lambda _: Defaults(), lambda _type, _args: None, batch=batch)


def _spec(tx: Transaction, row: Any) -> JobSpec:
    told = {"job_id": row.id, "type": row.type, "group": row.group_key, "cause": row.reason, "error": _error(tx, row)}
    return JobSpec(row.on_failed, told, group=row.group_key, weight=row.weight, priority=row.priority)


def _error(tx: Transaction, row: Any) -> str | None:
    """That of the attempt which has just failed; of a container, whose members have, what its reason says."""
    this = (job_attempts.c.job_id == row.id, job_attempts.c.attempt == row.attempt)
    attempt = tx.execute("error", select(job_attempts.c.error, job_attempts.c.cause).where(*this)).one_or_none()
    if attempt is None or attempt.cause != row.reason:
        return str(row.reason_text)
    return None if attempt.error is None else str(attempt.error)


def _goes_round(tx: Transaction, row: Any) -> bool:
    """Whether this job itself tells of a failure, and the type that it would enqueue has failed at that already.

    Types that are told of each other's failures would else go on for ever, and so would one that is told of its own."""
    wanted, told_in_vain = row.on_failed, set()
    while row is not None and (row.batch or "").startswith(TELLS):
        told_in_vain.add(row.type)
        row = tx.execute("former", select(*_COLUMNS).where(jobs.c.id == row.args["job_id"])).one_or_none()
    # Pruned: nobody knows what was tried before.
    return row is None or wanted in told_in_vain
