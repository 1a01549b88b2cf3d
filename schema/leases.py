"""Renew leases in one batch, find those that have lapsed, read back those of an owner. Waits for no row lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select, update

from sqljobs.schema.claim import Claimer
from sqljobs.schema.conditions import is_set
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.moves import Fence, by_primary_key
from sqljobs.schema.outcomes import Cause
from sqljobs.schema.supervisors import id_of
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Transaction

PAGE = 200


@dataclass(frozen=True)
class Renewal:
    """What became of the leases. `ended`: by the child itself, which is about to leave. `lost`: taken back by another
    supervisor, so kill the child. `cancelled`, and `cancelled_now`: still held, but an operator wants them ended."""

    renewed: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    cancelled: frozenset[int] = frozenset()
    cancelled_now: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Lapsed:
    """A lease that the database's clock says has run out; a hint, until its heartbeat is seen not to move.

    `heartbeat`: seconds between the renewals of its owner, as far as that is known."""

    fence: Fence
    type: str
    heartbeat_at: datetime
    heartbeat: float


def renew(tx: Transaction, claimer: Claimer, held: Mapping[int, int]) -> Renewal:
    """Extend the leases of `held` (job id -> attempt) that are still this owner's.

    A row locked by someone, such as its own child's finalize, is left for the next heartbeat and not reported lost."""
    ids = sorted(held)
    columns = (jobs.c.id, jobs.c.attempt, jobs.c.lease_owner, jobs.c.cancel_requested_at, jobs.c.cancel_now)
    mine = select(*columns).where(jobs.c.id.in_(ids))
    locked = {
        row.id: row
        for row in tx.execute("lock", tx.dialect.lock(by_primary_key(mine.order_by(jobs.c.id)), skip_locked=True))
    }
    unlocked = [job_id for job_id in ids if job_id not in locked]
    seen = dict(locked)
    if unlocked:
        seen |= {row.id: row for row in tx.execute("look", select(*columns).where(jobs.c.id.in_(unlocked)))}
    kept = {job_id for job_id, row in seen.items() if row.lease_owner == claimer.owner and row.attempt == held[job_id]}
    renewed = sorted(kept & locked.keys())
    if renewed:
        tx.execute(
            "extend",
            by_primary_key(update(jobs))
            .where(jobs.c.id.in_(renewed), jobs.c.lease_owner == claimer.owner)
            .values(lease_expires=tx.now + timedelta(seconds=claimer.ttl), heartbeat_at=tx.now),
        )
    gone = {job_id: held[job_id] for job_id in ids if job_id not in kept}
    ended = _ended_by_themselves(tx, gone) if gone else set()
    cancelled = {job_id for job_id in kept if seen[job_id].cancel_requested_at is not None}
    return Renewal(
        renewed=frozenset(renewed),
        ended=frozenset(ended),
        lost=frozenset(gone) - ended,
        cancelled=frozenset(cancelled),
        cancelled_now=frozenset(job_id for job_id in cancelled if seen[job_id].cancel_now),
    )


def _ended_by_themselves(tx: Transaction, gone: Mapping[int, int]) -> set[int]:
    """Those of `gone` (job id -> attempt) whose end is written, and not by a reclaim."""
    statement = select(job_attempts.c.job_id, job_attempts.c.attempt, job_attempts.c.cause).where(
        job_attempts.c.job_id.in_(sorted(gone)), job_attempts.c.cause.is_not(None)
    )
    return {
        row.job_id
        for row in tx.execute("ends", statement)
        if row.attempt == gone[row.job_id] and row.cause != Cause.LOST.value
    }


def lapsed(tx: Transaction, *, not_owner: str) -> Sequence[Lapsed]:
    """Leases of other owners that have run out by the database's clock, oldest first, one page."""
    statement = (
        select(jobs.c.id, jobs.c.attempt, jobs.c.lease_owner, jobs.c.type, jobs.c.heartbeat_at)
        .where(is_set(jobs.c.in_flight), jobs.c.lease_expires < tx.now, jobs.c.lease_owner != not_owner)
        .order_by(jobs.c.lease_expires)
        .limit(PAGE)
    )
    rows = tx.execute("lapsed", statement).all()
    if not rows:
        return []
    owners = select(job_supervisors.c.id, job_supervisors.c.heartbeat).where(
        job_supervisors.c.id.in_(sorted({id_of(row.lease_owner) for row in rows}))
    )
    heartbeats = {row.id: row.heartbeat or 0.0 for row in tx.execute("owners", owners)}
    return [
        Lapsed(
            Fence(row.id, row.attempt, row.lease_owner),
            row.type,
            row.heartbeat_at,
            heartbeats.get(id_of(row.lease_owner), 0.0),
        )
        for row in rows
    ]


def held_by(tx: Transaction, owner: str) -> dict[int, Fence]:
    """The fences of all jobs in flight of `owner`."""
    statement = select(jobs.c.id, jobs.c.attempt).where(is_set(jobs.c.in_flight), jobs.c.lease_owner == owner)
    return {row.id: Fence(row.id, row.attempt, owner) for row in tx.execute("held", statement)}
