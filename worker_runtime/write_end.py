"""The child writes the end of its attempt, with what its handler has prepared for it: one transaction, or another."""

from __future__ import annotations

from sqljobs.schema.claim import Lease
from sqljobs.schema.errors import CycleError, DuplicateKey, InvalidJob, Refused, UnknownJob
from sqljobs.schema.finalize import Spawned, finalize, settle_finalize
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.payloads import safe_traceback
from sqljobs.schema.transactions import Database, NotCommitted, Transaction
from sqljobs.worker_runtime.job_session import RaisedInside
from sqljobs.worker_runtime.registry import JobType
from sqljobs.worker_runtime.running_job import RunningJob

REFUSALS = (InvalidJob, UnknownJob, CycleError, Refused, DuplicateKey)


class _InVain(Exception):
    """What the handler's code has written shall not stay: the fence is gone, or a cancel was asked for."""


def write_end(database: Database, lease: Lease, job_type: JobType, outcome: Outcome, job: RunningJob) -> bool:
    """Write it; False when the fence is gone.

    Where what was prepared is refused, or raises, the attempt ends as an error, with nothing of it written. Raises
    `DatabaseUnavailable` and `CommitUnknown`."""

    def write(outcome: Outcome) -> bool:
        return _write(database, lease, job_type, outcome, job)

    try:
        return write(outcome)
    except REFUSALS as error:
        return write(Outcome(Cause.ERROR, error=f"what the handler has enqueued was refused: {error}"))
    except RaisedInside as raised:
        fatal = job_type.is_fatal(Cause.ERROR, raised.error)
        return write(Outcome(Cause.ERROR, error=safe_traceback(raised.error), fatal=fatal))
    except _InVain:
        return write(Outcome(Cause.CANCELLED))


def _write(database: Database, lease: Lease, job_type: JobType, outcome: Outcome, job: RunningJob) -> bool:
    prepared = outcome.cause is Cause.DONE
    spawned = job.spawned if prepared else Spawned()

    def work(tx: Transaction) -> bool:
        if prepared:  # first: no row is locked by us while an author's code runs
            job.finalizers.run(tx)
        progress = job.unwritten_progress  # theirs, too
        decision = finalize(tx, lease.fence, outcome, job_type.backoff, spawned=spawned, progress=progress)
        if prepared and len(job.finalizers) and (decision is None or decision.cause is not Cause.DONE):
            raise _InVain
        return decision is not None

    def settle(tx: Transaction) -> bool | type[NotCommitted]:
        return settle_finalize(tx, lease.fence)

    if prepared and len(job.finalizers):
        database = database.for_authors_code()
    return database.transaction("finalize", work, settle=settle)
