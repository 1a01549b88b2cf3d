"""The supervisors' own rows: register under a name that is free, heartbeat, state; and the usage each publishes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from sqljobs.schema.columns import NAME_LENGTH
from sqljobs.schema.control_tables import job_supervisors, job_usage
from sqljobs.schema.errors import DatabaseUnavailable, Refused
from sqljobs.schema.transactions import Database, NotCommitted, Transaction

NAMES_TRIED = 1000
REMEMBERED = timedelta(days=1)


@dataclass(frozen=True)
class Registration:
    """One start of a supervisor. `pid` and `start_ticks` are valid on `boot_id`; `ttl` and `heartbeat` in seconds.

    `devices`: `{"gpu": {"units": ["0", "1"]}}`. `type_uses`: what jobs of a type use that were given nothing of their
    own. `only_groups`: none but these are claimed from; empty: any."""

    id: str
    name: str
    host: str
    boot_id: str
    pid: int
    start_ticks: int
    slots: int
    types: Sequence[str]
    ttl: float
    heartbeat: float
    devices: Mapping[str, Any] | None = None
    type_uses: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)
    only_groups: Sequence[str] = ()


@dataclass(frozen=True)
class SeenSupervisor:
    """A supervisor's row, as another reads it. `devices`, `type_uses`, `only_groups`: as in `Registration`; None for
    none, which of groups means any."""

    id: str
    name: str
    host: str
    boot_id: str
    pid: int
    start_ticks: int
    state: str
    slots: int
    types: Sequence[str]
    wakeup: str
    heartbeat_at: datetime
    heartbeat_age_seconds: float
    ttl: float
    devices: Mapping[str, Any] | None
    type_uses: Mapping[str, Mapping[str, Decimal]] | None
    only_groups: Sequence[str] | None

    @property
    def owner(self) -> str:
        return owner_of(self.name, self.id)

    @property
    def is_gone(self) -> bool:
        """Known to be over, or silent for longer than its leases last."""
        return self.state == "gone" or self.heartbeat_age_seconds > self.ttl


def owner_of(name: str, supervisor_id: str) -> str:
    """The lease owner of this very start: no reused name and no restored backup can equal it."""
    return f"{name}/{supervisor_id}"


def id_of(owner: str) -> str:
    """The id in a lease owner."""
    return owner.rpartition("/")[2]


def register(database: Database, wanted: Registration) -> str:
    """Write the row under the wanted name, or NAME-2, NAME-3, ... while that is taken; returns the name."""
    for number in range(1, NAMES_TRIED):
        suffix = "" if number == 1 else f"-{number}"
        name = wanted.name[: NAME_LENGTH - len(suffix)].rstrip() + suffix
        try:
            return database.transaction(
                "register",
                lambda tx, name=name: _insert(tx, wanted, name),  # type: ignore[misc]
                settle=lambda tx: _registered(tx, wanted.id),
            )
        except IntegrityError:
            continue
    raise DatabaseUnavailable(f"{NAMES_TRIED} supervisors are called {wanted.name!r}: choose another --name")


def _registered(tx: Transaction, supervisor_id: str) -> str | type[NotCommitted]:
    """The name that a registration whose COMMIT was lost got after all."""
    mine = select(job_supervisors.c.name).where(job_supervisors.c.id == supervisor_id)
    name: str | None = tx.execute("read", mine).scalar_one_or_none()
    return NotCommitted if name is None else name


def _insert(tx: Transaction, wanted: Registration, name: str) -> str:
    _forget(tx)
    tx.execute(
        "insert",
        insert(job_supervisors).values(
            id=wanted.id,
            name=name,
            name_slot=name,
            host=wanted.host,
            boot_id=wanted.boot_id,
            pid=wanted.pid,
            start_ticks=wanted.start_ticks,
            state="running",
            slots=wanted.slots,
            types=list(wanted.types),
            wakeup="poll",
            started_at=tx.now,
            heartbeat_at=tx.now,
            ttl=wanted.ttl,
            heartbeat=wanted.heartbeat,
            devices=wanted.devices,
            type_uses=wanted.type_uses,
            only_groups=list(wanted.only_groups) or None,
        ),
    )
    return name


def heartbeat(tx: Transaction, supervisor_id: str, state: str, wakeup: str) -> None:
    """Say that this supervisor lives, what it does, and how it learns of work: `listen` or `poll`."""
    tx.execute(
        "beat",
        update(job_supervisors)
        .where(job_supervisors.c.id == supervisor_id)
        .values(heartbeat_at=tx.now, state=state, wakeup=wakeup),
    )


def drain_requested(tx: Transaction, supervisor_id: str) -> bool:
    """Whether an operator wants this start to claim nothing more and to end."""
    statement = select(job_supervisors.c.drain_requested_at).where(job_supervisors.c.id == supervisor_id)
    return tx.execute("drain", statement).scalar() is not None


def _forget(tx: Transaction) -> None:
    """Starts that were over long ago: what they had used is decayed, and what they held was taken back."""
    over = select(job_supervisors.c.id).where(
        job_supervisors.c.name_slot.is_(None), job_supervisors.c.heartbeat_at < tx.now - REMEMBERED
    )
    ids = tx.execute("over", over).scalars().all()
    for table, column in ((job_usage, job_usage.c.supervisor_id), (job_supervisors, job_supervisors.c.id)):
        if ids:
            tx.execute("forget", delete(table).where(column.in_(ids)))


def request_drain(tx: Transaction, name: str) -> list[SeenSupervisor]:
    """Ask the living supervisors called `name` to drain; they see it at their next heartbeat. Returns them.

    One, unless two are called so: a supervisor that was given up for dead, whose name another has taken, and that came
    back. Raises `Refused` when there is none, or none that lives."""
    called = [row for row in read_supervisors(tx) if row.name == name]
    living = [row for row in called if not row.is_gone]
    if not living:
        found = f"supervisor {name!r} is gone" if called else f"there is no supervisor {name!r}"
        raise Refused(f"{found}: `sqljobs status` shows those that run")
    tx.execute(
        "drain",
        update(job_supervisors)
        .where(job_supervisors.c.id.in_([row.id for row in living]))
        .values(drain_requested_at=func.coalesce(job_supervisors.c.drain_requested_at, tx.now)),
    )
    return living


def mark_gone(tx: Transaction, ids: Collection[str]) -> None:
    """These starts are over; their names are free again."""
    tx.execute(
        "gone",
        update(job_supervisors).where(job_supervisors.c.id.in_(sorted(ids))).values(state="gone", name_slot=None),
    )


def read_supervisors(tx: Transaction, *, living: bool = False) -> list[SeenSupervisor]:
    """All supervisors that are not yet forgotten, or only those that are not known to be gone."""
    statement = select(job_supervisors).order_by(job_supervisors.c.started_at)
    if living:
        statement = statement.where(job_supervisors.c.name_slot.is_not(None))
    return [_seen(row, tx.now) for row in tx.execute("supervisors", statement)]


def _seen(row: Any, now: datetime) -> SeenSupervisor:
    columns = {name: getattr(row, name) for name in SeenSupervisor.__dataclass_fields__ if hasattr(row, name)}
    return SeenSupervisor(**columns, heartbeat_age_seconds=max(0.0, (now - row.heartbeat_at).total_seconds()))


@dataclass(frozen=True)
class PublishedUsage:
    """Slot time of one group by one supervisor, decayed as of `as_of`."""

    group: str
    slot_seconds: float
    starts: float
    as_of: datetime


def publish_usage(tx: Transaction, supervisor_id: str, rows: Sequence[PublishedUsage]) -> None:
    """Replace what this supervisor has published; nobody else writes these rows."""
    tx.execute("forget_usage", delete(job_usage).where(job_usage.c.supervisor_id == supervisor_id))
    if rows:
        values = [
            {
                "supervisor_id": supervisor_id,
                "group_key": row.group,
                "slot_seconds": row.slot_seconds,
                "starts": row.starts,
                "as_of": row.as_of,
            }
            for row in rows
        ]
        tx.execute("usage", insert(job_usage), values)


def read_usage(tx: Transaction, *, but: str) -> list[PublishedUsage]:
    """What all other supervisors, living or gone, have published."""
    statement = select(job_usage).where(job_usage.c.supervisor_id != but)
    return [
        PublishedUsage(row.group_key, row.slot_seconds, row.starts, row.as_of)
        for row in tx.execute("read_usage", statement)
    ]
