"""Existing jobs that get new members: locked, looked at, counted; circles through them refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import select, update

from sqljobs.schema.chunks import chunks
from sqljobs.schema.circles import find_circle, inside
from sqljobs.schema.enqueue_plan import Call, Parent
from sqljobs.schema.enqueue_rows import Rows
from sqljobs.schema.errors import CycleError, Refused, UnknownParent
from sqljobs.schema.graph import Children
from sqljobs.schema.intents import leave
from sqljobs.schema.moves import by_primary_key
from sqljobs.schema.specs import INHERITED, Request
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import COUNTERS, jobs
from sqljobs.schema.transactions import Transaction

_LEGACY = {"group": jobs.c.group_key, "weight": jobs.c.weight, "priority": jobs.c.priority}


def lock_parents(
    tx: Transaction,
    requests: Sequence[Request],
    named: Sequence[int | None],
    existing: dict[int, int],
    running: int | None,
    *,
    at_end: bool = False,
) -> list[Parent | int | None]:
    """The parent of each request: a position, or an existing job, whose row is locked until the caller's transaction is
    over.

    Not that of `running`, whose handler makes the call, while it is no container: its lease is to be renewed. `at_end`
    of it, none that others hold, either. Raises `UnknownParent`, and `Refused` for a job that takes no members."""
    ids = [
        None if place in existing else _existing_parent(request, at, existing)
        for place, (request, at) in enumerate(zip(requests, named, strict=True))
    ]
    wanted = {job_id for job_id in ids if job_id is not None}
    own = _read(tx, set() if at_end else wanted & {running})
    leaves = {row.id for row in own if not row.container}
    rows = {row.id: (row, True) for row in _read(tx, wanted - leaves, lock=True, skip_locked=at_end)}
    rows |= {row.id: (row, False) for row in (*own, *_read(tx, wanted - leaves - rows.keys())) if row.id not in rows}
    found: dict[int, Parent] = {}
    for job_id in sorted(wanted):
        if job_id not in rows:
            raise UnknownParent(f"parent: there is no job {job_id}")
        row, is_held = rows[job_id]
        _refuse_closed(row, running)
        found[job_id] = Parent(job_id, row.state, _legacy(row), is_held)
    return [found[i] if i is not None else at for i, at in zip(ids, named, strict=True)]


def _read(tx: Transaction, ids: Collection[int | None], *, lock: bool = False, skip_locked: bool = False) -> list[Any]:
    columns = (
        *(jobs.c.id, jobs.c.type, jobs.c.state, jobs.c.container, jobs.c.cancel_requested_at, jobs.c.given),
        *(jobs.c.attempt, *_LEGACY.values()),
    )
    found: list[Any] = []
    for chunk in chunks(sorted(job_id for job_id in ids if job_id is not None)):
        statement = by_primary_key(select(*columns).where(jobs.c.id.in_(chunk)).order_by(jobs.c.id))
        found += tx.execute("parents", tx.dialect.lock(statement, skip_locked=skip_locked) if lock else statement)
    return found


def _existing_parent(request: Request, named: int | None, existing: dict[int, int]) -> int | None:
    if isinstance(request.parent, int):
        return request.parent
    return None if named is None else existing.get(named)


def _refuse_closed(row: Any, running: int | None) -> None:
    state = State(row.state)
    if state in FINAL:
        raise Refused(f"job {row.id} takes no members: it is {row.state}")
    if row.id != running and not row.container:
        raise Refused(f"job {row.id} takes no members: it is no container (its own handler may spawn some)")
    if row.cancel_requested_at is not None:
        raise Refused(f"job {row.id} takes no members: it is being cancelled")


def _legacy(row: Any) -> dict[str, Any]:
    """A job hands down its group, weight and priority; a container those that it was given."""
    named = INHERITED if row.attempt or not row.container else row.given or ()
    return {name: getattr(row, _LEGACY[name].name) for name in INHERITED if name in named}


def count_new(tx: Transaction, rows: Rows) -> None:
    """Count the new members of existing parents, and those of new ones that are other calls' jobs after all.

    Containers that may have no open member, and parents whose rows are not ours, are left for supervisors to look at:
    the caller may stay open for long."""
    changes: dict[int, Children] = {}
    uncounted: dict[int, int] = {}
    for position in rows.call.new:
        parent, start = rows.call.parents[position], rows.starts[position]
        added = (position in rows.written) - isinstance(parent, int)  # those of new parents are counted already
        parent_id = rows.parent_of(position)
        if parent_id is None or not added:
            continue
        if isinstance(parent, Parent) and not parent.is_held:  # it may end meanwhile
            uncounted[parent_id] = rows.written[position]
            continue
        one = Children(open=1)
        if start.state in FINAL:
            one = one.with_end(start.state.value, start.reason)
        changes[parent_id] = changes.get(parent_id, Children()).plus(one, added)
    for parent_id, children in sorted(changes.items()):
        values = {column: column + number for column, number in zip(COUNTERS, children, strict=True) if number}
        changed = by_primary_key(update(jobs)).where(jobs.c.id == parent_id)
        tx.execute("children", changed.values({**values, jobs.c.awaits_child: False}))
    empty = [parent_id for parent_id, children in changes.items() if children.open <= 0]
    leave(tx, "members", sorted({*empty, *_over_at_birth(rows)}))
    for parent_id, member in sorted(uncounted.items()):
        leave(tx, "members", [parent_id], after_id=member)


def _over_at_birth(rows: Rows) -> Iterator[int]:
    """New containers that have nothing to wait for, and have ended badly."""
    for position, job_id in rows.written.items():
        start = rows.starts[position]
        over = start.state is State.WAITING and not start.children.open and any(start.children)
        if over and rows.call.requests[position].container:
            yield job_id


def refuse_circles(tx: Transaction, call: Call, upstreams: Sequence[Sequence[int]]) -> None:
    """Raise `CycleError` where a new member of an existing container would wait for that container."""
    ids = sorted({up.job_id for at, up in enumerate(call.parents) if isinstance(up, Parent) and at in call.new})
    waited_for = {job_id: inside(call, job_id, upstreams) for job_id in ids}
    circle = find_circle(tx, {i: before for i, before in waited_for.items() if before.ends or before.begins - {i}})
    if circle is not None:
        member_of, waits_for = circle
        raise CycleError(
            f"a new member of job {member_of} would wait for job {waits_for}, and so for the end of what it is part of"
        )
