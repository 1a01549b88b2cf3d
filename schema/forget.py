"""Forget what jobs keep over their attempts, for a retry from scratch."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, update

from sqljobs.schema.chunks import chunks
from sqljobs.schema.moves import by_primary_key
from sqljobs.schema.state_tables import job_checkpoints, job_steps
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction


def forget(tx: Transaction, ids: Collection[int]) -> None:
    """The checkpoints, the results of steps and the progress of these jobs, whose rows we hold."""
    wanted = sorted(ids)
    nothing = {"progress_done": None, "progress_total": None, "progress_note": None}
    for chunk in chunks(wanted):
        tx.execute("forget_checkpoints", delete(job_checkpoints).where(job_checkpoints.c.job_id.in_(chunk)))
        tx.execute("forget_steps", delete(job_steps).where(job_steps.c.job_id.in_(chunk)))
        tx.execute("forget_progress", by_primary_key(update(jobs)).where(jobs.c.id.in_(chunk)).values(nothing))
