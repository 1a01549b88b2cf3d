"""The ready set: what a supervisor may claim, what is in flight, jobs that fall due. Reads, but for `promote_due`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, literal, not_, or_, select

from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.states import IN_FLIGHT, Event, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

PROMOTED_AT_ONCE = 500


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

    def __post_init__(self) -> None:
        for name in ("types", "groups"):  # so that statements can be kept by it
            object.__setattr__(self, name, tuple(sorted(getattr(self, name))))

    def condition(
        self, job_type: ColumnElement[str] = jobs.c.type, group: ColumnElement[str] = jobs.c.group_key
    ) -> ColumnElement[bool]:
        """The rows that this supervisor may claim, as SQL. `job_type`, `group`: the columns in another guise."""
        narrowed = job_type.in_(self.types)
        return and_(narrowed, group.in_(self.groups)) if self.groups else narrowed


def in_state(state: State) -> ColumnElement[bool]:
    """`state = '...'` as a literal: a bound parameter would not match the partial index."""
    return jobs.c.state == literal(state.value, literal_execute=True)


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


def will_be_ready(tx: Transaction, wanted: Wanted, within: timedelta) -> bool:
    """Whether anything that this supervisor could run is in flight, or due within `within`: what is blocked may be so
    on such a job."""
    flying = jobs.c.state.in_([state.value for state in IN_FLIGHT])
    soon = and_(jobs.c.state == State.SCHEDULED.value, jobs.c.run_after <= tx.now + within)
    return _is_any(tx, wanted, or_(flying, soon))


def is_ready(tx: Transaction, wanted: Wanted) -> bool:
    """Whether any job of these is ready, held or not."""
    return _is_any(tx, wanted, in_state(State.READY))


def _is_any(tx: Transaction, wanted: Wanted, condition: ColumnElement[bool]) -> bool:
    found = select(jobs.c.id).where(wanted.condition(), condition).limit(1)
    return tx.execute("work", found).first() is not None
