"""What a supervisor reads to take over from the dead ones of its own box: their rows, and what they still hold."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import and_, or_, select

from sqljobs.schema.conditions import is_set
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.moves import Fence
from sqljobs.schema.supervisors import id_of, owner_of
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Transaction


@dataclass(frozen=True)
class Neighbour:
    """A start of a supervisor on one boot. `is_listed`: its row does not say yet that it is gone."""

    id: str
    name: str
    pid: int
    start_ticks: int
    is_listed: bool

    @property
    def owner(self) -> str:
        return owner_of(self.name, self.id)


@dataclass(frozen=True)
class Held:
    """A job in flight of another supervisor; `process`: (pid, start ticks) of its child, once that has begun."""

    fence: Fence
    type: str
    process: tuple[int, int] | None


def neighbours(tx: Transaction, boot_id: str, *, besides: str, marked: Collection[str] = ()) -> list[Neighbour]:
    """The other starts on this boot that are not known to be gone, that hold a job, or whose id is in `marked`."""
    owners = select(jobs.c.lease_owner).where(is_set(jobs.c.in_flight)).distinct()
    wanted = {id_of(row.lease_owner) for row in tx.execute("owners", owners)} | set(marked)
    columns = job_supervisors.c
    statement = (
        select(columns.id, columns.name, columns.pid, columns.start_ticks, columns.name_slot)
        .where(columns.boot_id == boot_id, columns.id != besides)
        .where(or_(columns.name_slot.is_not(None), columns.id.in_(sorted(wanted))))
    )
    return [
        Neighbour(row.id, row.name, row.pid, row.start_ticks, row.name_slot is not None)
        for row in tx.execute("neighbours", statement)
    ]


def held_with_processes(tx: Transaction, owner: str) -> list[Held]:
    """All jobs in flight of `owner`."""
    attempt = job_attempts.c
    statement = (
        select(jobs.c.id, jobs.c.attempt, jobs.c.type, attempt.pid, attempt.start_ticks)
        .outerjoin(job_attempts, and_(attempt.job_id == jobs.c.id, attempt.attempt == jobs.c.attempt))
        .where(is_set(jobs.c.in_flight), jobs.c.lease_owner == owner)
    )
    return [
        Held(
            Fence(row.id, row.attempt, owner),
            row.type,
            (row.pid, row.start_ticks) if row.pid is not None and row.start_ticks is not None else None,
        )
        for row in tx.execute("held", statement)
    ]
