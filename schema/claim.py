"""Claim given jobs in one transaction: lock by primary key, check again, lease, count the attempt, open its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select, update

from sqljobs.schema.moves import Fence, by_primary_key, move
from sqljobs.schema.specs import Defaults
from sqljobs.schema.states import Event, State
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import NotCommitted, Transaction


@dataclass(frozen=True)
class Lease:
    """One claimed job: what the supervisor and the child need to know of its row. `timeout` in seconds, 0 = none."""

    job_id: int
    attempt: int
    owner: str
    supervisor: str
    type: str
    args: Any
    group: str
    key: str | None
    batch: str | None
    max_attempts: int
    timeout: float
    parent: int | None = None

    @property
    def fence(self) -> Fence:
        return Fence(self.job_id, self.attempt, self.owner)


@dataclass(frozen=True)
class Claimer:
    """Who claims: the owner string of this very start, the supervisor's name, the lease length in seconds."""

    owner: str
    name: str
    ttl: float


_COLUMNS = (
    *(jobs.c.id, jobs.c.state, jobs.c.type, jobs.c.args, jobs.c.group_key, jobs.c.key, jobs.c.attempt),
    *(jobs.c.max_attempts, jobs.c.first_max_attempts, jobs.c.timeout, jobs.c.given, jobs.c.unmet_deps),
    *(jobs.c.closed_gates, jobs.c.container, jobs.c.in_flight, jobs.c.batch, jobs.c.parent_id),
)


def claim(tx: Transaction, claimer: Claimer, ids: Sequence[int], options_of: Callable[[str], Defaults]) -> list[Lease]:
    """Lease those of `ids` that may start, no other; returns them in the order of `ids`.

    A job that another transaction holds is skipped, not waited for. `options_of` gives the handler's options, which
    apply where the job was given none of its own."""
    statement = select(*_COLUMNS).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
    locked = tx.execute("lock", tx.dialect.lock(by_primary_key(statement), skip_locked=True)).all()
    rows = {row.id: row for row in locked if _may_start(row)}
    chosen = [rows[job_id] for job_id in ids if job_id in rows]
    if not chosen:
        return []
    expires = tx.now + timedelta(seconds=claimer.ttl)
    _follow_handlers(tx, chosen, options_of)
    moved = move(
        tx,
        Event.CLAIM,
        State.LEASED,
        list(rows),
        {
            "lease_owner": claimer.owner,
            "lease_expires": expires,
            "heartbeat_at": tx.now,
            "in_flight": True,
            "attempt": jobs.c.attempt + 1,
            "started_at": None,
        },
    )
    assert moved == len(rows), "rows that this transaction has locked changed under it"
    tx.execute(
        "attempts",
        insert(job_attempts),
        [
            {
                "job_id": row.id,
                "attempt": row.attempt + 1,
                "owner": claimer.owner,
                "supervisor": claimer.name,
                "claimed_at": tx.now,
            }
            for row in chosen
        ],
    )
    effective = ((row, _effective(row, options_of(row.type))) for row in chosen)
    return [
        _lease(row, claimer, attempt=row.attempt + 1, max_attempts=now["max_attempts"], timeout=now["timeout"])
        for row, now in effective
    ]


def _may_start(row: Any) -> bool:
    """The ready set's definition, on a locked row."""
    ready = row.state == State.READY.value and not row.in_flight
    return ready and row.unmet_deps == 0 and row.closed_gates == 0 and not row.container


def _effective(row: Any, options: Defaults) -> Mapping[str, Any]:
    """The columns that follow the handler, as they will be for this attempt."""
    given = row.given or ()
    first = row.first_max_attempts if "max_attempts" in given else options.max_attempts
    # Refunds and retries have raised max_attempts above the first number; they stay granted.
    limit = max(row.attempt + 1, row.max_attempts + first - row.first_max_attempts)
    timeout = row.timeout if "timeout" in given else options.timeout
    return {"max_attempts": limit, "first_max_attempts": first, "timeout": timeout}


def _follow_handlers(tx: Transaction, rows: Sequence[Any], options_of: Callable[[str], Defaults]) -> None:
    changes: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for row in rows:
        wanted = _effective(row, options_of(row.type))
        if any(getattr(row, name) != value for name, value in wanted.items()):
            changes.setdefault(tuple(wanted.items()), []).append(row.id)
    for values, ids in changes.items():
        tx.execute("options", by_primary_key(update(jobs)).where(jobs.c.id.in_(sorted(ids))).values(dict(values)))


def _lease(row: Any, claimer: Claimer, *, attempt: int, max_attempts: int, timeout: float) -> Lease:
    return Lease(
        job_id=row.id,
        attempt=attempt,
        owner=claimer.owner,
        supervisor=claimer.name,
        type=row.type,
        args=row.args,
        group=row.group_key,
        key=row.key,
        batch=row.batch,
        parent=row.parent_id,
        max_attempts=max_attempts,
        timeout=timeout,
    )


def settle_claim(tx: Transaction, claimer: Claimer, ids: Sequence[int]) -> list[Lease] | type[NotCommitted]:
    """After a COMMIT of unknown outcome: the leases of `ids` that this owner holds, read back."""
    # The server may carry out the COMMIT only now; until then the lost session holds the rows.
    held = select(jobs.c.id).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
    tx.execute("wait", tx.dialect.lock(by_primary_key(held))).all()
    statement = select(*_COLUMNS).where(
        jobs.c.id.in_(ids), jobs.c.lease_owner == claimer.owner, jobs.c.state == State.LEASED.value
    )
    rows = {row.id: row for row in tx.execute("read", statement)}
    if not rows:
        return NotCommitted
    return [
        _lease(row, claimer, attempt=row.attempt, max_attempts=row.max_attempts, timeout=row.timeout)
        for row in (rows[job_id] for job_id in ids if job_id in rows)
    ]
