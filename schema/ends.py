"""The rows around an end: what is read of neighbours, under a lock, and how they are moved by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.graph import Children, closing_text
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.states import Event, State
from sqljobs.schema.tables import COUNTERS, jobs
from sqljobs.schema.transactions import Transaction

_COLUMNS = (
    *(jobs.c.id, jobs.c.state, jobs.c.reason, jobs.c.reason_job_id, jobs.c.parent_id, jobs.c.container),
    *(jobs.c.run_after, jobs.c.attempt, jobs.c.unmet_deps, jobs.c.closed_gates, jobs.c.cancel_requested_at),
    *(jobs.c.awaits_child, jobs.c.type, jobs.c.key, jobs.c.first_max_attempts, *COUNTERS),
    *(jobs.c.created_at, jobs.c.started_at, jobs.c.ended_at),
)


class End(NamedTuple):
    """A job that has ended in this transaction; its row is locked by us. `culprit`: the job at the root of a bad end.

    `has_members`: some are open, and end with it."""

    job_id: int
    state: State
    reason: str | None
    culprit: int
    parent_id: int | None
    has_members: bool = False

    @classmethod
    def of(cls, row: Any) -> End:
        """The end that a row shows."""
        culprit = row.reason_job_id if row.reason == "dependency" and row.reason_job_id else row.id
        return cls(row.id, State(row.state), row.reason, culprit, row.parent_id, row.open_children > 0)


def read_rows(tx: Transaction, what: str, ids: Collection[int]) -> list[Any]:
    """The same as `lock_rows` without a lock."""
    wanted = sorted(ids)
    found: list[Any] = []
    for chunk in chunks(wanted):
        found += tx.execute(what, select(*_COLUMNS).where(jobs.c.id.in_(chunk)))
    return found


def lock_rows(tx: Transaction, what: str, ids: Collection[int], *, skip_locked: bool = False) -> list[Any]:
    """The rows of `ids`, locked by primary key in order of their ids, a statement for each 500."""
    wanted = sorted(ids)
    found: list[Any] = []
    for chunk in chunks(wanted):
        statement = select(*_COLUMNS).where(jobs.c.id.in_(chunk)).order_by(jobs.c.id)
        found += tx.execute(what, tx.dialect.lock(by_primary_key(statement), skip_locked=skip_locked))
    return found


def lock_neighbours(tx: Transaction, what: str, leaves: Collection[int], containers: Collection[int]) -> list[Any]:
    """The rows of these, locked, without containers that others hold: who adds members to one may hold it for long, and
    no end waits for that. The containers come last, since they are not waited for."""
    rows = lock_rows(tx, what, leaves)
    return rows + lock_rows(tx, f"{what}_free", containers, skip_locked=True)


def has_begun(row: Any) -> bool:
    """Whether it was claimed, or, for a container, let its members start: nothing holds it back any more."""
    return row.attempt > 0 or row.started_at is not None


def is_blocked(row: Any) -> bool:
    """Whether it waits for others. A container that is being cancelled waits for its members alone."""
    return row.state == State.BLOCKED.value and row.cancel_requested_at is None


def was_closed_at_birth(row: Any) -> bool:
    """Whether it was enqueued after a bad end of what it waits for, which nobody may have seen undone."""
    return row.reason == "dependency" and bool(row.ended_at == row.created_at)


def children_of(row: Any) -> Children:
    """The counters of a row."""
    return Children(*(getattr(row, column.name) for column in COUNTERS))


def close(tx: Transaction, rows: Sequence[Any], reason: str, culprit: int | None) -> list[End]:
    """Cancel these blocked jobs, whose rows we hold, for the sake of others."""
    values = {"reason": reason, "reason_job_id": culprit, "reason_text": closing_text(reason, culprit)}
    move(tx, Event.DOOM, State.CANCELLED, [row.id for row in rows], values)
    return [
        End(row.id, State.CANCELLED, reason, culprit or row.id, row.parent_id, row.open_children > 0) for row in rows
    ]


def unblock(tx: Transaction, rows: Iterable[Any]) -> list[Any]:
    """Let these blocked jobs, whose rows we hold, go on; returns those that are containers."""
    free = list(rows)
    containers = [row for row in free if row.container]
    leaves = [row for row in free if not row.container]
    later = {row.id for row in leaves if row.run_after is not None and row.run_after > tx.now}
    move(tx, Event.UNBLOCK, State.SCHEDULED, later)
    move(tx, Event.UNBLOCK, State.READY, {row.id for row in leaves} - later)
    move(tx, Event.UNBLOCK, State.WAITING, [row.id for row in containers], {"started_at": tx.now})
    return containers
