"""What a running attempt spends of limits by itself: at once, or when there is room. Each call is one transaction.

The row of its job is locked first, so that nothing is spent for an attempt whose end is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import insert, select, update

from sqljobs.schema.admission import Account, Kind, Room
from sqljobs.schema.amounts import MAX_TOTAL, decimal_of, micros_of, text_of
from sqljobs.schema.charges import add_to_counter, charge, lock_gates
from sqljobs.schema.errors import InvalidJob, NoRunningJob
from sqljobs.schema.limit_tables import GATE, job_charges, job_counters, job_limits
from sqljobs.schema.moves import Fence, attempt_of
from sqljobs.schema.rooms import Asked, find_rooms, read_rooms
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import NotCommitted, Transaction
from sqljobs.schema.values import nearest
from sqljobs.schema.windows import length_of, window_at


@dataclass(frozen=True)
class Spent:
    """`left`: what the account still has after this, in millionths, below 0 when it is overspent. `total`: what the
    attempt has spent of this limit with this call."""

    left: int
    total: int


@dataclass(frozen=True)
class Wait:
    """There is no room now. `seconds`: until time alone may make some; None: it takes an event."""

    seconds: float | None


@dataclass(frozen=True)
class _Standing:
    """What one attempt has of one account. `estimate`: the rest of what its claim has reserved, if anything, with
    the id of its charge, and of which account that was: the limit may have been changed meanwhile."""

    room: Room
    spent: Mapping[str, Decimal]
    claimed_at: datetime
    estimate_id: int | None
    estimate: int
    estimate_account: Account | None
    estimate_period: str
    estimated_at: datetime | None


def spend(tx: Transaction, fence: Fence, name: str, amount: int) -> Spent:
    """Count `amount` millionths of the limit `name`, whether there is room or not, against the window of the claim.

    Raises `InvalidJob` when there is no such limit, `NoRunningJob` when the attempt is over."""
    standing = _standing(tx, fence, name)
    room = standing.room
    period = window_at(room.per, standing.claimed_at).key if room.kind is Kind.BUDGET else room.period
    return _write(tx, fence, standing, amount, period)


def take(tx: Transaction, fence: Fence, name: str, amount: int) -> Spent | Wait:
    """Count `amount` of the limit `name` if there is room for it, against the window of now. Raises as `spend`, and
    `InvalidJob` for more than the limit ever has."""
    standing = _standing(tx, fence, name, gate=True)
    room = standing.room
    if amount > room.amount > 0:
        limit = text_of(room.amount)
        raise InvalidJob(f"take: {text_of(amount)} of {name!r} can never be had: its limit is {limit}")
    # What its claim has reserved is its own, even where others have spent more since than there was.
    if amount - _covered(tx, standing, amount, room.period) > max(0, room.left):
        frees_at = room.frees_at if room.amount > 0 else None
        return Wait(None if frees_at is None else max(0.0, (frees_at - tx.now).total_seconds()))
    return _write(tx, fence, standing, amount, room.period)


def settle_spent(tx: Transaction, fence: Fence, name: str, before: Decimal) -> Spent | type[NotCommitted]:
    """After a COMMIT of unknown outcome: what was spent, if more than `before` stands in the attempt's row."""
    standing = _standing(tx, fence, name)
    total = standing.spent.get(name, Decimal(0))
    return Spent(standing.room.left, micros_of(total)) if total > before else NotCommitted


def spent_by(tx: Transaction, fence: Fence) -> Mapping[str, Decimal]:
    """What this attempt has spent by itself."""
    row = select(job_attempts.c.spent).where(attempt_of(fence))
    return tx.execute("spent", row).scalar_one_or_none() or {}


def _standing(tx: Transaction, fence: Fence, name: str, *, gate: bool = False) -> _Standing:
    own = select(jobs.c.id, jobs.c.group_key).where(fence.holds())
    job = tx.execute("lock", tx.dialect.lock(own)).one_or_none()
    if job is None:
        raise NoRunningJob("this attempt is over: its lease was lost, or its end is written")
    if gate:
        lock_gates(tx, [_room(tx, name, job.group_key, find_rooms).account])
    room = _room(tx, name, job.group_key, read_rooms)
    attempt = tx.execute("attempt", select(job_attempts.c.spent, job_attempts.c.claimed_at).where(attempt_of(fence)))
    row = attempt.one()
    statement = select(job_charges).where(
        *(job_charges.c.job_id == fence.job_id, job_charges.c.attempt == fence.attempt),
        *(job_charges.c.name == name, job_charges.c.estimate),
    )
    estimate = tx.execute("estimate", statement).first()
    return _Standing(
        room=room,
        spent=row.spent or {},
        claimed_at=row.claimed_at,
        estimate_id=None if estimate is None else estimate.id,
        estimate=0 if estimate is None else estimate.amount,
        estimate_account=None if estimate is None else Account(name, estimate.group_key),
        estimate_period="" if estimate is None else estimate.period,
        estimated_at=None if estimate is None else estimate.counted_at,
    )


def _room(tx: Transaction, name: str, group: str, read: Callable[..., Mapping[Asked, Room]]) -> Room:
    room = read(tx, [(name, group)]).get((name, group))
    if room is None:
        raise InvalidJob(f"there is no limit {name!r}{nearest(name, _names(tx))}: make it with `sqljobs limit set`")
    return room


def _names(tx: Transaction) -> list[str]:
    return list(tx.execute("names", select(job_limits.c.name).distinct().limit(1000)).scalars())


def _covered(tx: Transaction, standing: _Standing, amount: int, period: str) -> int:
    """How much of `amount` is counted in this window already, as the estimate of the claim."""
    room = standing.room
    if standing.estimated_at is None or standing.estimate_account != room.account:
        return 0
    if room.kind is Kind.BUDGET and standing.estimate_period != period:
        return 0
    if room.kind is Kind.RATE and standing.estimated_at <= tx.now - length_of(room.per or "0"):
        return 0
    return min(amount, standing.estimate)


def _write(tx: Transaction, fence: Fence, standing: _Standing, amount: int, period: str) -> Spent:
    room = standing.room
    total = min(micros_of(standing.spent.get(room.account.name, Decimal(0))) + amount, MAX_TOTAL)
    spent = {**standing.spent, room.account.name: decimal_of(total)}
    tx.execute("spend", update(job_attempts).where(attempt_of(fence)).values(spent=spent))
    # Drawn from the estimate, also from one of another window: the larger of both is charged in all.
    drawn = min(amount, standing.estimate)
    if drawn:
        rest = standing.estimate - drawn
        tx.execute("draw", update(job_charges).where(job_charges.c.id == standing.estimate_id).values(amount=rest))
    if room.kind is Kind.BUDGET:
        changes = {(room.account, period): amount}
        if standing.estimate_account is not None and standing.estimate_period != GATE:
            home = standing.estimate_account, standing.estimate_period
            changes[home] = changes.get(home, 0) - drawn
        for (account, window), change in sorted(changes.items()):
            add_to_counter(tx, account, window, change)
        return Spent(room.amount - _counted(tx, room.account, period), total)
    covered = _covered(tx, standing, amount, period)
    tx.execute("charge", insert(job_charges).values(charge(fence, room, tx.now, amount, estimate=False)))
    return Spent(room.left - amount + covered, total)


def _counted(tx: Transaction, account: Account, period: str) -> int:
    statement = select(job_counters.c.used).where(
        *(job_counters.c.name == account.name, job_counters.c.group_key == account.group),
        job_counters.c.period == period,
    )
    return int(tx.execute("counted", statement).scalar() or 0)
