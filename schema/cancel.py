"""Cancel jobs: at once where nobody has claimed them, else as a request that the attempt cannot outrun."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select, update

from sqljobs.schema.edges import End, settle_downstream
from sqljobs.schema.errors import Refused, UnknownJob
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.states import IN_FLIGHT, UNCLAIMED, Event, State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction


def cancel(tx: Transaction, ids: Sequence[int], *, now: bool = False) -> list[int]:
    """Cancel all of `ids`, or none; returns those that this call changed.

    An unclaimed job is `cancelled` when the transaction commits. A claimed one can from then on end only as
    `cancelled`; its supervisor kills it within a heartbeat, with `now` by SIGKILL at once. A job that is cancelled
    already stays so. Raises `UnknownJob`, and `Refused` for a job that ended otherwise."""
    wanted = sorted(set(ids))
    statement = select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(wanted)).order_by(jobs.c.id)
    states = {row.id: State(row.state) for row in tx.execute("lock", tx.dialect.lock(by_primary_key(statement)))}
    for job_id in wanted:
        if job_id not in states:
            raise UnknownJob(f"there is no job {job_id}")
        if states[job_id] in (State.DONE, State.FAILED):
            raise Refused(f"job {job_id} cannot be cancelled: it is {states[job_id]}")
    unclaimed = [job_id for job_id in wanted if states[job_id] in UNCLAIMED]
    claimed = [job_id for job_id in wanted if states[job_id] in IN_FLIGHT]
    move(
        tx,
        Event.CANCEL,
        State.CANCELLED,
        unclaimed,
        {"reason": "cancelled", "reason_text": "cancelled by an operator", "cancel_requested_at": tx.now},
    )
    for job_id in unclaimed:
        settle_downstream(tx, End(job_id, State.CANCELLED, "cancelled", job_id))
    if claimed:
        tx.execute(
            "request",
            by_primary_key(update(jobs))
            .where(jobs.c.id.in_(claimed))
            .values(cancel_requested_at=func.coalesce(jobs.c.cancel_requested_at, tx.now), cancel_now=now),
        )
    return unclaimed + claimed
