"""One attempt from enqueue to done in a transaction that is rolled back."""

from __future__ import annotations

from sqljobs.schema.claim import Claimer, claim
from sqljobs.schema.enqueue import enqueue_many
from sqljobs.schema.finalize import finalize, start
from sqljobs.schema.holds import Holds
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.specs import Defaults, JobSpec
from sqljobs.schema.transactions import Database, Transaction

REHEARSED = "sqljobs rehearsal"


def rehearse(database: Database, claimer: Claimer) -> None:
    """Run every statement of an attempt once, and leave no trace but a number of the id sequence.

    A missing privilege shows here, at the start, and not at the first finalize; and the statements are compiled in this
    process, so that each forked child finds them in the engine's cache. Errors as of `Database.transaction`."""
    database.transaction("rehearsal", lambda tx: _attempt(tx, claimer), keep=False)


def _attempt(tx: Transaction, claimer: Claimer) -> None:
    first = JobSpec(REHEARSED)
    specs = [first, JobSpec(REHEARSED, after=[first])]
    job, _ = enqueue_many(tx, specs, lambda _: Defaults(), lambda _type, _args: None)
    (lease,) = claim(tx, claimer, [job.id], lambda _: Defaults(), holds=Holds())  # a held supervisor starts, too
    assert start(tx, lease.fence, pid=0)
    assert finalize(tx, lease.fence, Outcome(Cause.DONE), Backoff()) is not None
