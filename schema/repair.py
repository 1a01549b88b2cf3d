"""Compute a job's counters anew, under its row lock, and the state that follows. Touches no edge and no result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from sqljobs.schema.chunks import chunks
from sqljobs.schema.ends import lock_rows
from sqljobs.schema.graph_invariants import child_counts, children_of, unsatisfied
from sqljobs.schema.intents import leave
from sqljobs.schema.members import counts_members
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.settling import resettle
from sqljobs.schema.states import IN_FLIGHT, Event, State
from sqljobs.schema.tables import COUNTERS, jobs
from sqljobs.schema.transactions import Database, Transaction

if TYPE_CHECKING:
    from sqljobs.schema.dialects.contract import Rows

AT_ONCE = 200
_COLUMNS = (jobs.c.id, jobs.c.state, jobs.c.container, jobs.c.closed_gates, jobs.c.unmet_deps, *COUNTERS)


def repair_counters(database: Database, ids: Sequence[int]) -> None:
    """Give these jobs the counters that their edges and children show, a few in each transaction.

    A job that is then blocked by nothing becomes ready or scheduled, and one that must wait after all is blocked. One
    that is in flight and should have waited is left as it is: it cannot be un-run."""
    for chunk in chunks(ids, AT_ONCE):
        work = partial(_repair, ids=chunk)
        # Doing it twice is doing it once, so a COMMIT of unknown outcome is settled by doing it again.
        database.transaction("repair", work, settle=work)


def _repair(tx: Transaction, ids: Sequence[int]) -> None:
    # Whoever flips an edge of a job, or ends a child, changes the counter too, and holds this row until it commits.
    mine = select(*_COLUMNS).where(jobs.c.id.in_(ids)).order_by(jobs.c.id)
    rows = tx.execute("lock", tx.dialect.lock(by_primary_key(mine))).all()
    unmet = {row.id: row.unmet for row in tx.execute("edges", _unsatisfied_of(ids))}
    children = {row.parent_id: row for row in tx.execute("children", child_counts(children_of(ids)))}
    for row in rows:
        counted = children.get(row.id)
        right = {column.name: int(getattr(counted, column.name, 0)) for column in COUNTERS}
        _write(tx, row, {"unmet_deps": unmet[row.id], **(right if counts_members(row) else {})})
    leave(tx, "members", [row.id for row in rows if row.container])  # some may be over now
    resettle(tx, lock_rows(tx, "settled", ids))


def _unsatisfied_of(ids: Sequence[int]) -> Rows:
    return select(jobs.c.id, unsatisfied(jobs.c.id).label("unmet")).where(jobs.c.id.in_(ids))


def _write(tx: Transaction, row: Any, right: Mapping[str, int]) -> None:
    must_wait = right["unmet_deps"] > 0 or row.closed_gates > 0
    values = {name: value for name, value in right.items() if value != getattr(row, name)}
    if must_wait and row.state in (State.READY.value, State.SCHEDULED.value):
        move(tx, Event.REOPEN, State.BLOCKED, [row.id], values)
        return
    if must_wait and State(row.state) in IN_FLIGHT:
        values.pop("unmet_deps", None)
    if values:
        tx.execute("counters", by_primary_key(update(jobs)).where(jobs.c.id == row.id).values(values))
