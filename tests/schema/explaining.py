"""What tests of `explain` set up by rows alone: supervisors that claim nothing by themselves, limits, holds."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, insert, update

import sqljobs
from sqljobs.schema.claim import Claimer
from sqljobs.schema.control_tables import job_holds, job_supervisors
from sqljobs.schema.limit_tables import job_charges, job_counters, job_limits
from sqljobs.schema.supervisors import owner_of
from sqljobs.schema.tables import job_attempts
from sqljobs.schema.transactions import Database

MICRO = 10**6


def reasons(database: Database, job_id: int) -> list[sqljobs.Reason]:
    """`sqljobs.explain` in a transaction of its own."""
    with database.engine.connect() as conn:
        return sqljobs.explain(conn, job_id)


def codes(database: Database, job_id: int) -> list[str]:
    """The codes alone, in their order."""
    return [reason.code for reason in reasons(database, job_id)]


def only(database: Database, job_id: int) -> sqljobs.Reason:
    """The one reason that there is."""
    (reason,) = reasons(database, job_id)
    assert reason.text
    assert reason.text == reason.text.strip().removesuffix(".")
    return reason


def now(database: Database) -> datetime:
    """The database's clock."""
    return database.read("clock", lambda tx: tx.now)


def crew(
    database: Database, name: str = "alice", *, slots: int = 4, types: Iterable[str] = ("t",), **columns: Any
) -> Claimer:
    """The row of a living supervisor; returns how it claims. `columns`: more of its row."""
    found = {
        "id": uuid.uuid4().hex,
        "name": name,
        "name_slot": name,
        "host": "here",
        "boot_id": "boot",
        "pid": 1,
        "start_ticks": 1,
        "state": "running",
        "slots": slots,
        "types": list(types),
        "wakeup": "poll",
        "started_at": now(database),
        "heartbeat_at": now(database),
        "ttl": 600.0,
        "heartbeat": 10.0,
        **columns,
    }
    with database.engine.begin() as conn:
        conn.execute(insert(job_supervisors).values(found))
    return Claimer(owner_of(name, str(found["id"])), name, 600.0)


def change_crew(database: Database, name: str, **columns: Any) -> None:
    """Write other values into its row."""
    with database.engine.begin() as conn:
        changed = conn.execute(update(job_supervisors).where(job_supervisors.c.name == name).values(**columns))
        assert changed.rowcount == 1


def give_units(database: Database, job_id: int, **units: list[str]) -> None:
    """Units of devices for the attempt that is in flight."""
    with database.engine.begin() as conn:
        conn.execute(update(job_attempts).where(job_attempts.c.job_id == job_id).values(devices=units))


def limit(
    database: Database, name: str, amount: float, *, kind: str = "resource", per: str | None = None, each: bool = False
) -> None:
    """Set a limit, or set it anew."""
    row = {"kind": kind, "amount": round(amount * MICRO), "per": per, "each_group": each}
    with database.engine.begin() as conn:
        conn.execute(delete(job_limits).where(job_limits.c.name == name))
        conn.execute(insert(job_limits).values(name=name, group_key="", **row))


def charge(
    database: Database,
    name: str,
    job_id: int,
    amount: float,
    *,
    kind: str = "resource",
    ago: float = 0,
) -> None:
    """What the attempt in flight of a job has of a limit, since so many seconds."""
    with database.engine.begin() as conn:
        row = {"name": name, "group_key": "", "job_id": job_id, "attempt": 1, "kind": kind, "period": ""}
        row |= {"counted_at": now(database) - timedelta(seconds=ago), "amount": round(amount * MICRO), "estimate": True}
        conn.execute(insert(job_charges).values(row))


def spend(database: Database, name: str, period: str, amount: float, group: str = "") -> None:
    """What was had of a budget in one of its windows."""
    row = {"name": name, "group_key": group, "period": period, "used": round(amount * MICRO)}
    with database.engine.begin() as conn:
        conn.execute(insert(job_counters).values(row))


def free(database: Database, name: str) -> None:
    """Nobody has anything of it any more."""
    with database.engine.begin() as conn:
        for table in (job_charges, job_counters):
            conn.execute(delete(table).where(table.c.name == name))


def put_hold(database: Database, kind: str, name: object = "", **columns: Any) -> None:
    """A hold."""
    with database.engine.begin() as conn:
        conn.execute(insert(job_holds).values(kind=kind, name=str(name), since=now(database), **columns))


def end_holds(database: Database) -> None:
    """No hold any more."""
    with database.engine.begin() as conn:
        conn.execute(delete(job_holds))
