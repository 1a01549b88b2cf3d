"""Containers: members counted in them as they end, roll-up after the last, gates opened, members cancelled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select, update

from sqljobs.schema.ends import End, children_of, is_blocked, lock_rows
from sqljobs.schema.families import with_members
from sqljobs.schema.graph import NOT_NEEDED, Children
from sqljobs.schema.intents import forget_joined, is_left, joined
from sqljobs.schema.moves import by_primary_key, move
from sqljobs.schema.payloads import counts_json
from sqljobs.schema.states import FINAL, IN_FLIGHT, OPEN, UNCLAIMED, Event, State
from sqljobs.schema.tables import COUNTERS, jobs
from sqljobs.schema.transactions import Transaction

BY_OPERATOR = "cancelled by an operator"


def count_ends(tx: Transaction, ends: Iterable[End]) -> tuple[list[End], list[int]]:
    """Count what has ended in its parent; returns the containers that this ends, and the jobs that are still to be
    counted: nothing is waited for, and a parent whose row is taken, by a sibling's end or by a caller who adds members,
    is for supervisors."""
    by_parent: dict[int, list[End]] = defaultdict(list)
    for end in ends:
        if end.parent_id is not None:
            by_parent[end.parent_id].append(end)
    parents = lock_rows(tx, "lock_parents", by_parent, skip_locked=True)
    missed = by_parent.keys() - {row.id for row in parents}
    counting = {row.id: row for row in parents if counts_members(row)}
    counted: dict[int, Children] = {}
    for job_id, row in counting.items():
        counted[job_id] = children_of(row)
        for end in by_parent[job_id]:
            counted[job_id] = counted[job_id].with_end(end.state.value, end.reason)
    write_counters(tx, counted)
    over = roll_up(tx, [row for row in counting.values() if is_over(row, counted[row.id])], counted)
    return over, sorted(end.job_id for parent_id in missed for end in by_parent[parent_id])


def counts_members(row: Any) -> bool:
    """Whether the job keeps its counters now. One that runs, or is to run, counts its members when it has succeeded."""
    return row.container or State(row.state) in FINAL


def is_over(row: Any, children: Children) -> bool:
    """Whether the container waits for nothing more."""
    given_up = row.cancel_requested_at is not None
    begun = row.state == State.WAITING.value or (row.state == State.BLOCKED.value and given_up)
    return begun and children.open == 0 and (bool(children.ended) or not row.awaits_child or given_up)


def write_counters(tx: Transaction, counted: Mapping[int, Children]) -> None:
    """Write the counters of rows that we hold; a statement for all that are alike.

    Never below zero: counters that are wrong are for `doctor`, and must not keep an attempt from its end."""
    alike: dict[Children, list[int]] = defaultdict(list)
    for job_id, children in counted.items():
        alike[Children(*(max(0, number) for number in children))].append(job_id)
    for children, ids in alike.items():
        values = dict(zip(COUNTERS, children, strict=True))
        tx.execute("children", by_primary_key(update(jobs)).where(jobs.c.id.in_(sorted(ids))).values(values))


def roll_up(tx: Transaction, rows: Sequence[Any], counted: Mapping[int, Children]) -> list[End]:
    """End these containers, whose rows we hold, as their members have ended.

    One that has got members without its row is left to the intent that tells of them."""
    uncounted = joined(tx, [row.id for row in rows])
    rows = [row for row in rows if row.id not in uncounted]
    if not rows:
        return []
    first_bad = _first_bad(tx, [row.id for row in rows if counted[row.id].failed or counted[row.id].cancelled])
    return [_end(tx, row, counted[row.id], first_bad.get(row.id, {})) for row in sorted(rows, key=lambda row: row.id)]


def _end(tx: Transaction, row: Any, children: Children, first_bad: Mapping[str, int]) -> End:
    state = children.end(cancel_requested=row.cancel_requested_at is not None)
    by_operator = state is State.CANCELLED and row.cancel_requested_at is not None
    values: dict[str, Any] = {"reason": None, "reason_text": None, "reason_job_id": None}
    if by_operator:
        values |= {"reason": "cancelled", "reason_text": BY_OPERATOR}
    elif state is not State.DONE:
        number = children.failed if state is State.FAILED else children.cancelled - children.not_needed
        culprit = first_bad.get(state.value)
        which = f"job {culprit}" + (", the first" if number > 1 else "")
        text = f"{number} of {children.ended} members {'failed' if children.failed else 'were cancelled'} ({which})"
        values |= {"reason": "children", "reason_text": text, "reason_job_id": culprit}
    if not row.attempt:  # one that has run has a result of its own
        values["result"] = counts_json(children)
    move(tx, Event.CANCEL if by_operator else Event.ROLL_UP, state, [row.id], values)
    return End(row.id, state, values["reason"], row.id, row.parent_id)


def _first_bad(tx: Transaction, ids: Collection[int]) -> dict[int, dict[str, int]]:
    """Container -> state -> its first member that ended so, and badly."""
    if not ids:
        return {}
    found: dict[int, dict[str, int]] = defaultdict(dict)
    bad = (
        jobs.c.state.in_([State.FAILED.value, State.CANCELLED.value]),
        func.coalesce(jobs.c.reason, "") != NOT_NEEDED,
    )
    statement = (
        select(jobs.c.parent_id, jobs.c.state, func.min(jobs.c.id).label("first"))
        .where(jobs.c.parent_id.in_(sorted(ids)), *bad)
        .group_by(jobs.c.parent_id, jobs.c.state)
    )
    for row in tx.execute("bad_members", statement):
        found[row.parent_id][row.state] = row.first
    return found


def recount(tx: Transaction, job_id: int) -> Children:
    """Count the members of a job that has not kept its counters, its row being ours; returns and writes them.

    One that has ended and is to be counted still is open to that count. What was left for supervisors for members that
    are seen now is done."""
    forget_joined(tx, job_id)
    # A subquery, since MySQL groups by columns only.
    uncounted = is_left("child").label("uncounted")
    mine = select(jobs.c.state, jobs.c.reason, uncounted).where(jobs.c.parent_id == job_id).subquery("mine")
    statement = select(*mine.c, func.count().label("number")).group_by(*mine.c)
    children = Children()
    for row in tx.execute("recount", statement):
        one = Children(open=1)
        if State(row.state) in FINAL and not row.uncounted:
            one = one.with_end(row.state, row.reason)
        children = children.plus(one, row.number)
    write_counters(tx, {job_id: children})
    return children


def some_members(tx: Transaction, containers: Collection[int], limit: int, *, gated: bool) -> list[Any]:
    """(id, parent_id, container) of members: those behind a closed gate, or the open ones whose cancel nobody has asked
    for."""
    states = [State.BLOCKED.value] if gated else sorted(state.value for state in OPEN)
    where: list[ColumnElement[bool]] = [jobs.c.parent_id.in_(sorted(containers)), jobs.c.state.in_(states)]
    where.append(jobs.c.closed_gates > 0 if gated else jobs.c.cancel_requested_at.is_(None))
    columns = (jobs.c.id, jobs.c.parent_id, jobs.c.container)
    statement = select(*columns).where(*where).order_by(jobs.c.parent_id, jobs.c.id).limit(limit)
    return list(tx.execute("members", statement))


def open_gates(tx: Transaction, rows: Sequence[Any]) -> list[Any]:
    """The container around these, whose rows we hold, has begun; returns those that wait for nothing more."""
    gated = [row for row in rows if row.state == State.BLOCKED.value and row.closed_gates]
    if gated:
        opened = by_primary_key(update(jobs)).where(jobs.c.id.in_([row.id for row in gated]))
        tx.execute("gates", opened.values(closed_gates=0))
    return [row for row in gated if row.unmet_deps == 0 and is_blocked(row)]


def cancel_rows(
    tx: Transaction, rows: Sequence[Any], text: str = BY_OPERATOR, *, now: bool = False
) -> tuple[list[End], list[int]]:
    """Cancel these open jobs, whose rows we hold: at once where nobody has claimed them, else as a request that the
    attempt cannot outrun. Returns what has ended, and the containers that have not."""
    unclaimed = [row for row in rows if State(row.state) in UNCLAIMED and not row.container]
    claimed = [row.id for row in rows if State(row.state) in IN_FLIGHT]
    containers = [row for row in rows if row.container]
    # Those that a handler has enqueued below its own job in an earlier attempt were not counted so far: now, while
    # all are open.
    parents = with_members(tx, [row.id for row in unclaimed if row.attempt])
    counted = {row.id: recount(tx, row.id) if row.id in parents else children_of(row) for row in unclaimed}
    why = {"reason": "cancelled", "reason_text": text}
    move(tx, Event.CANCEL, State.CANCELLED, [row.id for row in unclaimed], {**why, "cancel_requested_at": tx.now})
    if claimed or containers:
        ids = sorted([*claimed, *(row.id for row in containers)])
        asked = by_primary_key(update(jobs)).where(jobs.c.id.in_(ids))
        since = func.coalesce(jobs.c.cancel_requested_at, tx.now)
        tx.execute("request", asked.values(cancel_requested_at=since, cancel_now=now))
    ends = [
        End(row.id, State.CANCELLED, "cancelled", row.id, row.parent_id, counted[row.id].open > 0) for row in unclaimed
    ]
    return ends, [row.id for row in containers]
