"""Claim given jobs in one transaction: lock by primary key, check again, reserve, lease, open the attempt's row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from sqlalchemy import and_, insert, select, update

from sqljobs.schema.charges import Uses, Wish, reserve, write_charges
from sqljobs.schema.holds import Holds, held_containers, read_holds
from sqljobs.schema.moves import Fence, by_primary_key, move
from sqljobs.schema.specs import Defaults
from sqljobs.schema.states import Event, State
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import NotCommitted, Transaction


@dataclass(frozen=True)
class Lease:
    """One claimed job: what the supervisor and the child need to know of its row. `timeout` in seconds, 0 = none.

    `memory`: bytes that its processes may hold together, None = any."""

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
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    memory: int | None = None

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
    *(jobs.c.max_attempts, jobs.c.first_max_attempts, jobs.c.timeout, jobs.c.memory, jobs.c.given, jobs.c.unmet_deps),
    *(jobs.c.closed_gates, jobs.c.container, jobs.c.in_flight, jobs.c.batch, jobs.c.parent_id, jobs.c.uses),
    jobs.c.on_failed,
)
Units = Mapping[str, Sequence[str]]


def claim(
    tx: Transaction,
    claimer: Claimer,
    ids: Sequence[int],
    options_of: Callable[[str], Defaults],
    *,
    devices: Mapping[int, Units] = MappingProxyType({}),
    holds: Holds | None = None,
) -> list[Lease]:
    """Lease those of `ids` that may start, no other; returns them in the order of `ids`.

    A job that another transaction holds is skipped, not waited for, and so is one that uses a limit of which another is
    just being admitted. `options_of` gives the handler's options, which apply where the job was given none of its own;
    `devices` the units that its supervisor has set aside for a job. `holds`: those to heed; None: all in force."""
    statement = select(*_COLUMNS).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
    locked = tx.execute("lock", tx.dialect.lock(by_primary_key(statement), skip_locked=True)).all()
    rows = {row.id: row for row in locked if _may_start(row)}
    rows = _not_held(tx, claimer, rows, options_of, read_holds(tx) if holds is None else holds)
    wishes = [
        Wish(job_id, rows[job_id].group_key, effective_uses(rows[job_id], options_of), devices.get(job_id, {}).keys())
        for job_id in ids
        if job_id in rows
    ]
    admitted = reserve(tx, wishes) if wishes else {}
    chosen = [rows[job_id] for job_id in ids if job_id in admitted]
    if not chosen:
        return []
    _follow_handlers(tx, chosen, options_of)
    _lease_rows(tx, claimer, sorted(admitted))
    used = {wish.job_id: wish.uses for wish in wishes if wish.uses}
    tx.execute("attempts", insert(job_attempts), [_attempt(tx, row, claimer, used, devices) for row in chosen])
    write_charges(tx, ((row.id, row.attempt + 1, room, had) for row in chosen for room, had in admitted[row.id]))
    effective = ((row, _effective(row, options_of(row.type))) for row in chosen)
    return [
        _lease(
            row,
            claimer,
            attempt=row.attempt + 1,
            max_attempts=now["max_attempts"],
            timeout=now["timeout"],
            memory=now["memory"],
            devices=devices.get(row.id, {}),
        )
        for row, now in effective
    ]


def _not_held(
    tx: Transaction, claimer: Claimer, rows: Mapping[int, Any], options_of: Callable[[str], Defaults], holds: Holds
) -> dict[int, Any]:
    """Those that none of `holds` covers: what was committed before this transaction began is among them."""
    if not rows or not holds:
        return dict(rows)
    if holds.supervisor(claimer.name) is not None:
        return {}
    inside = held_containers(tx, holds)
    return {
        row.id: row
        for row in rows.values()
        if row.parent_id not in inside
        and holds.covering(row.id, row.type, row.group_key, effective_uses(row, options_of).keys()) is None
    }


def _lease_rows(tx: Transaction, claimer: Claimer, ids: Collection[int]) -> None:
    values = {
        "lease_owner": claimer.owner,
        "lease_expires": tx.now + timedelta(seconds=claimer.ttl),
        "heartbeat_at": tx.now,
        "in_flight": True,
        "attempt": jobs.c.attempt + 1,
        "started_at": None,
    }
    moved = move(tx, Event.CLAIM, State.LEASED, ids, values)
    assert moved == len(ids), "rows that this transaction has locked changed under it"


def _attempt(
    tx: Transaction, row: Any, claimer: Claimer, used: Mapping[int, Uses], devices: Mapping[int, Units]
) -> dict[str, Any]:
    units = devices.get(row.id)
    return {
        "job_id": row.id,
        "attempt": row.attempt + 1,
        "owner": claimer.owner,
        "supervisor": claimer.name,
        "claimed_at": tx.now,
        "used": used.get(row.id),
        "devices": {name: list(given) for name, given in units.items()} if units else None,
    }


def effective_uses(row: Any, options_of: Callable[[str], Defaults]) -> Uses:
    """What the job of `row` (type, given, uses) uses: of its own, else what its handler says."""
    own = row.uses if "uses" in (row.given or ()) else options_of(row.type).uses
    return own or {}


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
    memory = row.memory if "memory" in given else options.memory
    on_failed = row.on_failed if "on_failed" in given else options.on_failed
    changing = {"timeout": timeout, "memory": memory, "on_failed": on_failed}
    return {"max_attempts": limit, "first_max_attempts": first, **changing}


def _follow_handlers(tx: Transaction, rows: Sequence[Any], options_of: Callable[[str], Defaults]) -> None:
    changes: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for row in rows:
        wanted = _effective(row, options_of(row.type))
        if any(getattr(row, name) != value for name, value in wanted.items()):
            changes.setdefault(tuple(wanted.items()), []).append(row.id)
    for values, ids in changes.items():
        tx.execute("options", by_primary_key(update(jobs)).where(jobs.c.id.in_(sorted(ids))).values(dict(values)))


def _lease(
    row: Any,
    claimer: Claimer,
    *,
    attempt: int,
    max_attempts: int,
    timeout: float,
    memory: int | None,
    devices: Units | None,
) -> Lease:
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
        memory=memory,
        devices={name: tuple(units) for name, units in (devices or {}).items()},
    )


def settle_claim(tx: Transaction, claimer: Claimer, ids: Sequence[int]) -> list[Lease] | type[NotCommitted]:
    """After a COMMIT of unknown outcome: the leases of `ids` that this owner holds, read back."""
    # The server may carry out the COMMIT only now; until then the lost session holds the rows.
    held = select(jobs.c.id).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
    tx.execute("wait", tx.dialect.lock(by_primary_key(held))).all()
    this = and_(job_attempts.c.job_id == jobs.c.id, job_attempts.c.attempt == jobs.c.attempt)
    statement = (
        select(*_COLUMNS, job_attempts.c.devices)
        .join(job_attempts, this)
        .where(jobs.c.id.in_(ids), jobs.c.lease_owner == claimer.owner, jobs.c.state == State.LEASED.value)
    )
    rows = {row.id: row for row in tx.execute("read", statement)}
    if not rows:
        return NotCommitted
    return [
        _lease(
            row,
            claimer,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            timeout=row.timeout,
            memory=row.memory,
            devices=row.devices,
        )
        for row in (rows[job_id] for job_id in ids if job_id in rows)
    ]
