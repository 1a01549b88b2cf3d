"""What the living supervisors could take on: types, groups, free slots, free units of devices. Reads only."""

from __future__ import annotations

from sqlalchemy import and_, select

from sqljobs.schema.amounts import all_micros
from sqljobs.schema.conditions import is_set
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.crew import Crew, Fleet, Flying
from sqljobs.schema.supervisors import read_supervisors
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Transaction


def read_fleet(tx: Transaction) -> Fleet:
    """Look at all supervisors, and at what is in flight: as many rows as there are slots."""
    rows = read_supervisors(tx)
    draining = _draining(tx)
    flying = _flying(tx)
    crews = [
        Crew(
            name=row.name,
            slots=row.slots,
            types=frozenset(row.types or ()),
            groups=None if row.only_groups is None else frozenset(row.only_groups),
            claims=row.state == "running" and row.id not in draining,
            units={name: len(device["units"]) for name, device in (row.devices or {}).items()},
            type_uses={name: all_micros(uses) for name, uses in (row.type_uses or {}).items()},
            flying=tuple(flying.get(row.owner, ())),
        )
        for row in rows
        if not row.is_gone
    ]
    return Fleet(crews, frozenset(name for row in rows for name in row.devices or {}))


def _draining(tx: Transaction) -> set[str]:
    """Those that were asked to claim nothing more; they know of it at their next heartbeat."""
    statement = select(job_supervisors.c.id).where(job_supervisors.c.drain_requested_at.is_not(None))
    return set(tx.execute("draining", statement).scalars())


def _flying(tx: Transaction) -> dict[str, list[Flying]]:
    this = and_(job_attempts.c.job_id == jobs.c.id, job_attempts.c.attempt == jobs.c.attempt)
    columns = (jobs.c.id, jobs.c.group_key, jobs.c.lease_owner, jobs.c.started_at, job_attempts.c.devices)
    statement = select(*columns).join(job_attempts, this, isouter=True).where(is_set(jobs.c.in_flight))
    found: dict[str, list[Flying]] = {}
    for row in tx.execute("in_flight", statement.order_by(jobs.c.id)):
        elapsed = max(0.0, (tx.now - (row.started_at or tx.now)).total_seconds())
        units = {name: len(given) for name, given in (row.devices or {}).items()}
        found.setdefault(row.lease_owner, []).append(Flying(row.id, row.group_key, elapsed, units))
    return found
