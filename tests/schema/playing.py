"""The few moves that most tests begin with: enqueue, claim, start, end, look. Each in a transaction of its own."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, func, select

import sqljobs
from sqljobs.schema.chores import work_off
from sqljobs.schema.claim import Claimer, Lease, claim, settle_claim
from sqljobs.schema.columns import JsonText
from sqljobs.schema.finalize import finalize, settle_finalize, start
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Backoff, Cause, Decision, Outcome
from sqljobs.schema.specs import Defaults
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Database

ALICE = Claimer("alice/1", "alice", 60.0)
BOB = Claimer("bob/2", "bob", 60.0)
NO_DELAY = Backoff(0.0, 0.0)
DONE = Outcome(Cause.DONE, result=JsonText("1"))


def put(database: Database, job_type: Any = "t", args: Any = None, /, **options: Any) -> int:
    """Enqueue one job and commit."""
    with database.engine.begin() as conn:
        return sqljobs.enqueue(conn, job_type, args, **options)


def work_off_all(database: Database) -> int:
    """Do what transactions have left for supervisors; returns how many transactions that took."""
    number = 0
    while database.transaction("chores", work_off):
        number += 1
    return number


def no_options(_job_type: str) -> Defaults:
    """A handler without options of its own."""
    return Defaults()


def lease(database: Database, *ids: int, claimer: Claimer = ALICE) -> list[Lease]:
    """Claim those of `ids` that may start."""
    return database.transaction(
        "claim", lambda tx: claim(tx, claimer, ids, no_options), settle=lambda tx: settle_claim(tx, claimer, ids)
    )


def set_off(database: Database, *ids: int, claimer: Claimer = ALICE) -> list[Lease]:
    """Claim all of `ids` and let their handlers be reached."""
    leases = lease(database, *ids, claimer=claimer)
    assert [one.job_id for one in leases] == list(ids)
    for one in leases:
        assert database.transaction("start", lambda tx, one=one: start(tx, one.fence, pid=1))  # type: ignore[misc]
    return leases


def end(
    database: Database, fence: Fence, outcome: Outcome = DONE, backoff: Backoff = NO_DELAY, *, if_lapsed: bool = False
) -> Decision | None:
    """Write the end of an attempt; None when the fence was gone."""
    return database.transaction("finalize", lambda tx: finalize(tx, fence, outcome, backoff, if_lapsed=if_lapsed))


def end_settled(database: Database, fence: Fence, outcome: Outcome = DONE, *, reconnect_for: float = 0.0) -> bool:
    """The same as a child does it: an unknown COMMIT is settled by reading."""
    return database.transaction(
        "finalize",
        lambda tx: finalize(tx, fence, outcome, NO_DELAY) is not None,
        settle=lambda tx: settle_finalize(tx, fence),
        reconnect_for=reconnect_for,
    )


def run(database: Database, job_id: int, outcome: Outcome = DONE) -> None:
    """One whole attempt."""
    assert end(database, set_off(database, job_id)[0].fence, outcome) is not None


def row(database: Database, job_id: int) -> Row[Any]:
    """The job's row."""
    with database.engine.connect() as conn:
        return conn.execute(select(jobs).where(jobs.c.id == job_id)).one()


def states(database: Database, ids: Sequence[int]) -> list[str]:
    """The states of these jobs, in that order."""
    return [row(database, job_id).state for job_id in ids]


def tries(database: Database, job_id: int) -> Sequence[Row[Any]]:
    """The job's attempts, in order."""
    with database.engine.connect() as conn:
        statement = select(job_attempts).where(job_attempts.c.job_id == job_id).order_by(job_attempts.c.attempt)
        return conn.execute(statement).all()


def edges(database: Database, job_id: int) -> Sequence[Row[Any]]:
    """What the job waits for, in the order given."""
    with database.engine.connect() as conn:
        statement = select(job_deps).where(job_deps.c.job_id == job_id).order_by(job_deps.c.position)
        return conn.execute(statement).all()


def count(database: Database) -> int:
    """How many jobs there are."""
    with database.engine.connect() as conn:
        return len(conn.execute(select(jobs.c.id)).all())


def count_states(database: Database) -> dict[str, int]:
    """How many jobs are in each state that there is one in."""
    statement = select(jobs.c.state, func.count().label("number")).group_by(jobs.c.state)
    with database.engine.connect() as conn:
        return {row.state: row.number for row in conn.execute(statement)}
