"""The atomic end of an attempt: state, result, retry, the attempt's row and the dependents, under one fence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, exists, or_, select, update

from sqljobs.schema.charges import has_charges, settle_charges
from sqljobs.schema.ends import End, children_of, lock_rows
from sqljobs.schema.enqueue import Within, enqueue_many
from sqljobs.schema.headlines import headline
from sqljobs.schema.job_info import Progress
from sqljobs.schema.members import is_over, recount, roll_up
from sqljobs.schema.moves import Fence, attempt_of, move_fenced
from sqljobs.schema.outcomes import INTERRUPTIONS_IN_A_ROW, Backoff, Cause, Decision, Outcome, Standing, decide
from sqljobs.schema.progress import progress_values
from sqljobs.schema.settling import settle
from sqljobs.schema.specs import CheckArgs, Defaults, DefaultsOf, JobSpec
from sqljobs.schema.states import FINAL, Event, State
from sqljobs.schema.tables import COUNTERS, job_attempts, jobs
from sqljobs.schema.transactions import NotCommitted, Transaction

_random = random.Random()
_members = jobs.alias("members")


@dataclass(frozen=True)
class Spawned:
    """What a handler has enqueued through its job: its members, and others. Written if, and only if, it ends `done`."""

    children: Sequence[JobSpec] = ()
    followers: Sequence[JobSpec] = ()
    defaults_of: DefaultsOf = lambda _: Defaults()
    check_args: CheckArgs = lambda _type, _args: None


def start(tx: Transaction, fence: Fence, *, pid: int, start_ticks: int | None = None) -> bool:
    """`leased` to `running`: the child is about to call the handler. False means that the fence is gone.

    `pid` and `start_ticks` (clock ticks from boot) name its process for others on the box."""
    if not move_fenced(tx, Event.START, State.RUNNING, fence, {"started_at": tx.now}):
        return False
    tx.execute(
        "attempt",
        update(job_attempts).where(attempt_of(fence)).values(started_at=tx.now, pid=pid, start_ticks=start_ticks),
    )
    return True


def finalize(
    tx: Transaction,
    fence: Fence,
    outcome: Outcome,
    backoff: Backoff,
    *,
    if_lapsed: bool = False,
    spawned: Spawned = Spawned(),
    progress: Progress | None = None,
) -> Decision | None:
    """Write the end of the attempt that `fence` stands for, and what follows from it, in this transaction.

    A job that has members is a container from its success on. `progress`: what the handler said last, where that is not
    written yet. None means that the fence is gone: somebody else has written the end, and nothing was changed. With
    `if_lapsed` a lease that has not run out is left alone, too. Raises what `enqueue_many` raises for what was spawned.
    """
    row = _lock_own(tx, fence)
    if row is None or (if_lapsed and row.lease_expires > tx.now):
        return None
    standing = Standing(
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        first_max_attempts=row.first_max_attempts,
        cancel_requested=row.cancel_requested_at is not None,
        interruptions=_interruptions(tx, fence) if outcome.cause is Cause.INTERRUPTED else 0,
    )
    decision = decide(outcome, standing, backoff, _random)
    if decision.state is State.DONE and (row.has_members or spawned.children):
        decision = replace(decision, state=State.WAITING)
    values = _values(tx, outcome, decision) | progress_values(progress)
    if not move_fenced(tx, decision.event, decision.state, fence, values):
        return None
    tx.execute(
        "attempt",
        update(job_attempts)
        .where(attempt_of(fence), job_attempts.c.cause.is_(None))
        .values(cause=decision.cause.value, ended_at=tx.now, error=outcome.error),
    )
    _follow(tx, row, fence.job_id, decision, spawned)
    if row.charges:  # last: no lock on a job may come after those on counters
        spent = tx.execute("spent", select(job_attempts.c.spent).where(attempt_of(fence))).scalar_one()
        settle_charges(tx, fence, spent, died=outcome.died, reached=row.started_at is not None)
    return decision


def _follow(tx: Transaction, row: Any, job_id: int, decision: Decision, spawned: Spawned) -> None:
    """What follows from an end: what it has spawned, its members, those that wait for it."""
    open_members = False
    if row.has_members and (decision.state is State.WAITING or decision.state in FINAL):
        open_members = recount(tx, job_id).open > 0
    if decision.cause is Cause.DONE and (spawned.children or spawned.followers):
        legacy = {"group": row.group_key, "weight": row.weight, "priority": row.priority}
        within = Within(job_id, frozenset(spawned.children), legacy, at_end=True)
        specs = [*spawned.children, *spawned.followers]
        enqueue_many(tx, specs, spawned.defaults_of, spawned.check_args, within=within)
    if decision.state is State.WAITING:
        (own,) = lock_rows(tx, "own", [job_id])
        children = children_of(own)
        if is_over(own, children):
            settle(tx, *roll_up(tx, [own], {job_id: children}))
    elif decision.state in FINAL:
        settle(tx, End(job_id, decision.state, decision.cause.value, job_id, row.parent_id, open_members))


def settle_finalize(tx: Transaction, fence: Fence) -> bool | type[NotCommitted]:
    """After a COMMIT of unknown outcome: True when this attempt has its end, by whosever hand."""
    _wait_for_lost_session(tx, fence)
    row = tx.execute("read", select(job_attempts.c.cause).where(attempt_of(fence))).one_or_none()
    return True if row is not None and row.cause is not None else NotCommitted


def settle_start(tx: Transaction, fence: Fence) -> bool | type[NotCommitted]:
    """The same for `start`: True when the job is running under this fence."""
    _wait_for_lost_session(tx, fence)
    running = select(jobs.c.id).where(fence.holds(), jobs.c.state == State.RUNNING.value)
    return True if tx.execute("read", running).first() is not None else NotCommitted


def _wait_for_lost_session(tx: Transaction, fence: Fence) -> None:
    """The server may carry out the COMMIT only now; until then the lost session holds the row."""
    tx.execute("wait", tx.dialect.lock(select(jobs.c.id).where(jobs.c.id == fence.job_id))).all()


def _lock_own(tx: Transaction, fence: Fence) -> Any:
    columns = (
        *(jobs.c.attempt, jobs.c.max_attempts, jobs.c.first_max_attempts, jobs.c.cancel_requested_at),
        *(jobs.c.in_flight, jobs.c.lease_owner, jobs.c.lease_expires, jobs.c.parent_id),
        *(jobs.c.group_key, jobs.c.weight, jobs.c.priority),
        or_(exists().where(_members.c.parent_id == jobs.c.id), _counted()).label("has_members"),
        *(jobs.c.started_at, has_charges(jobs.c.id, jobs.c.attempt).label("charges")),
    )
    statement = tx.dialect.lock(select(*columns).where(jobs.c.id == fence.job_id))
    row = tx.execute("lock", statement).one_or_none()
    if row is None or not row.in_flight or (row.attempt, row.lease_owner) != (fence.attempt, fence.owner):
        return None
    return row


def _counted() -> ColumnElement[bool]:
    """A supervisor has counted members. Where the lock had to be waited for, what the row says is newer than what is
    seen of others."""
    return or_(*(column > 0 for column in COUNTERS))


def _interruptions(tx: Transaction, fence: Fence) -> int:
    """How many attempts just before this one did not reach their handler, up to the number that matters.

    One that was interrupted in its handler was so by a deploy, and shows that the handler can be reached."""
    before = (
        select(job_attempts.c.cause, job_attempts.c.started_at)
        .where(job_attempts.c.job_id == fence.job_id, job_attempts.c.attempt < fence.attempt)
        .order_by(job_attempts.c.attempt.desc())
        .limit(INTERRUPTIONS_IN_A_ROW)
    )
    count = 0
    for row in tx.execute("interruptions", before):
        if row.cause != Cause.INTERRUPTED.value or row.started_at is not None:
            break
        count += 1
    return count


def _values(tx: Transaction, outcome: Outcome, decision: Decision) -> dict[str, Any]:
    values: dict[str, Any] = {"max_attempts": decision.max_attempts}
    match decision.state:
        case State.DONE | State.WAITING:
            values |= {"result": outcome.result, "container": decision.state is State.WAITING}
        case State.SCHEDULED:
            values["run_after"] = tx.now + timedelta(seconds=decision.delay or 0.0)
        case State.FAILED:
            values |= {"reason": decision.cause.value, "reason_text": headline(outcome.reason or outcome.error)}
        case State.CANCELLED:
            values |= {"reason": "cancelled", "reason_text": outcome.reason or "cancelled by an operator"}
    return values
