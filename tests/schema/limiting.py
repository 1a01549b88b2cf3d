"""Moves of tests about limits: set one, spend, take, and add up what the rows say."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select

import sqljobs
from sqljobs.schema.admission import Room
from sqljobs.schema.amounts import decimal_of, micros_of
from sqljobs.schema.limit_tables import job_charges, job_counters
from sqljobs.schema.moves import Fence
from sqljobs.schema.rooms import read_rooms
from sqljobs.schema.spending import Spent, Wait, spend, take
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Database


def limit(database: Database, name: str, **options: Any) -> None:
    """Set a limit and commit."""
    with database.engine.begin() as conn:
        sqljobs.set_limit(conn, name, **options)


def room(database: Database, name: str, group: str = "default") -> Room:
    """What there is of a limit now."""
    return database.read("rooms", lambda tx: read_rooms(tx, [(name, group)]))[name, group]


def used(database: Database, name: str, group: str = "default") -> Decimal:
    """What counts against a limit now."""
    return decimal_of(room(database, name, group).used)


def spent(database: Database, fence: Fence, name: str, amount: str) -> Decimal:
    """Spend, and return what is left."""
    found = database.transaction("spend", lambda tx: spend(tx, fence, name, micros_of(Decimal(amount))))
    return decimal_of(found.left)


def taken(database: Database, fence: Fence, name: str, amount: str) -> Spent | Wait:
    """Try to take once."""
    return database.transaction("take", lambda tx: take(tx, fence, name, micros_of(Decimal(amount))))


def counters(database: Database, name: str) -> dict[tuple[str, str], Decimal]:
    """(group, window) -> what was had of a budget; without gates."""
    statement = select(job_counters).where(job_counters.c.name == name, job_counters.c.period != "")
    with database.engine.connect() as conn:
        return {(row.group_key, row.period): decimal_of(row.used) for row in conn.execute(statement)}


def charges(database: Database, job_id: int) -> Mapping[str, Decimal]:
    """What one job's attempts have in rows of their own, by limit."""
    statement = (
        select(job_charges.c.name, func.sum(job_charges.c.amount).label("had"))
        .where(job_charges.c.job_id == job_id)
        .group_by(job_charges.c.name)
    )
    with database.engine.connect() as conn:
        return {row.name: decimal_of(row.had) for row in conn.execute(statement)}


def charged(database: Database, name: str) -> Decimal:
    """What all attempts of all jobs are to be charged of a budget, computed anew from their rows."""
    total = Decimal(0)
    with database.engine.connect() as conn:
        for row in conn.execute(select(job_attempts, jobs.c.in_flight).join(jobs, jobs.c.id == job_attempts.c.job_id)):
            estimate, had = ((amounts or {}).get(name, Decimal(0)) for amounts in (row.used, row.spent))
            died = row.cause in ("exit", "signal", "timeout", "lost", "memory", "interrupted", "lease_lost")
            if row.cause is None or died:
                total += max(estimate, had) if row.cause is None or row.started_at is not None else 0
            elif row.started_at is not None:
                total += had or estimate
    return total
