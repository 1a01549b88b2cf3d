"""The ready set: heads per group for ranking, what is in flight, jobs that fall due. Reads, but for `promote_due`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, literal, not_, or_, select

from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.states import IN_FLIGHT, Event, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

PROMOTED_AT_ONCE = 500


@dataclass(frozen=True)
class ReadyJob:
    """A job that may start, as far as ranking needs it. `created_at` in seconds since the epoch."""

    job_id: int
    group: str
    weight: int
    priority: int
    created_at: float


@dataclass(frozen=True)
class HeldSlot:
    """A job in flight on any supervisor; `elapsed`: seconds that it has been running."""

    group: str
    owner: str
    elapsed: float


@dataclass(frozen=True)
class Wanted:
    """What a supervisor may claim: `types` that it has handlers for, `groups` if it is narrowed to some."""

    types: Collection[str]
    groups: Collection[str] = ()

    def condition(self, job_type: ColumnElement[str] = jobs.c.type) -> ColumnElement[bool]:
        """The rows that this supervisor may claim, as SQL. `job_type`: the column in another guise."""
        narrowed = job_type.in_(sorted(self.types))
        return and_(narrowed, jobs.c.group_key.in_(sorted(self.groups))) if self.groups else narrowed


def in_state(state: State) -> ColumnElement[bool]:
    """`state = '...'` as a literal: a bound parameter would not match the partial index."""
    return jobs.c.state == literal(state.value, literal_execute=True)


def scan(tx: Transaction, wanted: Wanted, heads: int) -> list[ReadyJob]:
    """The oldest `heads` ready jobs of each (group, priority), from the ready index alone."""
    place = (
        func.row_number()
        .over(partition_by=(jobs.c.group_key, jobs.c.priority), order_by=(jobs.c.created_at, jobs.c.id))
        .label("place")
    )
    columns = (jobs.c.id, jobs.c.group_key, jobs.c.weight, jobs.c.priority, jobs.c.created_at)
    ready = select(*columns, place).where(in_state(State.READY), wanted.condition())
    for name in ("mysql", "mariadb"):
        ready = ready.with_hint(jobs, "FORCE INDEX (jobs_ready)", name)
    numbered = ready.subquery("numbered")
    rows = tx.execute("scan", select(numbered).where(numbered.c.place <= heads))
    return [ReadyJob(row.id, row.group_key, row.weight, row.priority, row.created_at.timestamp()) for row in rows]


def in_flight(tx: Transaction) -> list[HeldSlot]:
    """What every supervisor on this database holds."""
    statement = select(jobs.c.group_key, jobs.c.lease_owner, jobs.c.started_at).where(is_set(jobs.c.in_flight))
    return [
        HeldSlot(row.group_key, row.lease_owner, max(0.0, (tx.now - (row.started_at or tx.now)).total_seconds()))
        for row in tx.execute("in_flight", statement)
    ]


def due(tx: Transaction) -> Sequence[int]:
    """Scheduled jobs whose time has come, oldest first, a bounded number."""
    statement = (
        select(jobs.c.id)
        .where(in_state(State.SCHEDULED), jobs.c.run_after <= tx.now)
        .order_by(jobs.c.run_after)
        .limit(PROMOTED_AT_ONCE)
    )
    return tx.execute("due", statement).scalars().all()


def promote_due(tx: Transaction, ids: Sequence[int]) -> int:
    """`scheduled` to `ready`; a row that someone holds is left for the next time."""
    statement = select(jobs.c.id, jobs.c.run_after).where(jobs.c.id.in_(sorted(ids))).order_by(jobs.c.id)
    locked = tx.execute("lock", tx.dialect.lock(by_primary_key(statement), skip_locked=True))
    return move(tx, Event.DUE, State.READY, [row.id for row in locked if row.run_after and row.run_after <= tx.now])


def definition(now: Any) -> ColumnElement[bool]:
    """The ready set as it is defined, from edges instead of counters: the oracle of tests and `doctor`."""
    unsatisfied = exists().where(job_deps.c.job_id == jobs.c.id, is_unset(job_deps.c.satisfied))
    startable = or_(
        jobs.c.state == State.READY.value,
        and_(jobs.c.state == State.SCHEDULED.value, jobs.c.run_after <= now),
    )
    return and_(
        startable, not_(unsatisfied), jobs.c.closed_gates == 0, not_(jobs.c.container), jobs.c.lease_owner.is_(None)
    )


def ready_set(tx: Transaction) -> set[int]:
    """Ids of the ready set by its definition."""
    return set(tx.execute("ready_set", select(jobs.c.id).where(definition(tx.now))).scalars())


def has_work(tx: Transaction, wanted: Wanted, within: timedelta) -> bool:
    """Whether anything that this supervisor could run is ready, in flight, or due within `within`, or is blocked on
    such a job."""
    flying = jobs.c.state.in_([state.value for state in IN_FLIGHT])
    soon = and_(jobs.c.state == State.SCHEDULED.value, jobs.c.run_after <= tx.now + within)
    active = and_(wanted.condition(), or_(in_state(State.READY), flying, soon))
    return tx.execute("work", select(jobs.c.id).where(active).limit(1)).first() is not None
