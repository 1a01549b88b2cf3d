"""The only writer of `jobs.state`: compare-and-set on state, and on the fence where a claim is held."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, Update, and_, case, null, update

from sqljobs.schema.chunks import chunks
from sqljobs.schema.states import FINAL, IN_FLIGHT, Event, State, transition
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.wake import wake

if TYPE_CHECKING:
    from sqljobs.schema.dialects.contract import Rows

Statement = TypeVar("Statement", bound="Rows | Update")


class Fence(NamedTuple):
    """The right to write for one attempt: this job, this attempt, this very start of a supervisor."""

    job_id: int
    attempt: int
    owner: str

    def holds(self) -> ColumnElement[bool]:
        """The SQL condition that the job is still in flight under this fence."""
        return and_(
            jobs.c.id == self.job_id,
            jobs.c.state.in_([state.value for state in IN_FLIGHT]),
            jobs.c.attempt == self.attempt,
            jobs.c.lease_owner == self.owner,
        )


def attempt_of(fence: Fence) -> ColumnElement[bool]:
    """The SQL condition for the row of this attempt, ended or not."""
    return and_(
        job_attempts.c.job_id == fence.job_id,
        job_attempts.c.attempt == fence.attempt,
        job_attempts.c.owner == fence.owner,
    )


def by_primary_key(statement: Statement, table: Any = jobs) -> Statement:
    """Make MySQL and MariaDB find the rows by their primary key: any other way locks what it walks over."""
    hinted: Any = statement
    for name in ("mysql", "mariadb"):
        if isinstance(hinted, Select):
            hinted = hinted.with_hint(table, "FORCE INDEX (PRIMARY)", name)
        else:
            hinted = hinted.with_hint("FORCE INDEX (PRIMARY)", dialect_name=name)
    return hinted  # type: ignore[no-any-return]


def move(
    tx: Transaction, event: Event, target: State, ids: Collection[int], values: dict[str, Any] | None = None
) -> int:
    """Take the jobs `ids` from any state that `event` allows to `target`; returns how many were moved."""
    if not ids:
        return 0
    sources = [state.value for state in transition(event, target).sources]
    wanted = sorted(ids)
    moved = 0
    for chunk in chunks(wanted):
        where = and_(jobs.c.id.in_(chunk), jobs.c.state.in_(sources))
        moved += _write(tx, event, target, where, values or {})
    return moved


def move_fenced(
    tx: Transaction, event: Event, target: State, fence: Fence, values: dict[str, Any] | None = None
) -> bool:
    """The same for the holder of `fence`; False means that the fence is gone: do nothing more."""
    sources = [state.value for state in transition(event, target).sources]
    where = and_(fence.holds(), jobs.c.state.in_(sources))
    return _write(tx, event, target, where, values or {}) == 1


def _write(tx: Transaction, event: Event, target: State, where: ColumnElement[bool], values: dict[str, Any]) -> int:
    written: dict[Any, Any] = {"state": target.value, "updated_at": tx.now}
    if target not in IN_FLIGHT:
        written |= {"in_flight": False, "lease_owner": None, "lease_expires": None, "heartbeat_at": None}
    if target in FINAL:
        # The key is free again, unless it was given for ever.
        kept = case((jobs.c.key_for == "ever", jobs.c.key_slot), else_=null())
        written |= {"ended_at": tx.now, "key_slot": kept}
    statement = by_primary_key(update(jobs)).where(where).values({**written, **values})
    moved = tx.execute(f"move_{event}", statement).rowcount
    if moved and target is State.READY:
        wake(tx)
    return moved
