"""Who is in which container: up and down, level by level. Reads only, and no recursive SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.states import OPEN, State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction


def open_descendants(tx: Transaction, ids: Collection[int]) -> list[int]:
    """The open jobs in these containers, at any depth, below open ones."""
    return [row.id for row in _descendants(tx, ids, jobs.c.state.in_(sorted(state.value for state in OPEN)))]


def begun_containers(tx: Transaction, ids: Collection[int]) -> frozenset[int]:
    """The containers in these, at any depth, that have begun and so let their members start."""
    return frozenset(row.id for row in _descendants(tx, ids, jobs.c.state == State.WAITING.value))


def descendants(tx: Transaction, ids: Collection[int]) -> list[Any]:
    """All jobs in these containers, at any depth, by level and id: (id, parent_id, state, reason, container, type, key,
    cancel_requested_at)."""
    return _descendants(tx, ids)


def _descendants(tx: Transaction, ids: Collection[int], *where: ColumnElement[bool]) -> list[Any]:
    columns = (
        *(jobs.c.id, jobs.c.parent_id, jobs.c.state, jobs.c.reason, jobs.c.container, jobs.c.type, jobs.c.key),
        jobs.c.cancel_requested_at,
    )
    found: dict[int, Any] = {}
    level = sorted(ids)
    while level:
        below: list[int] = []
        for chunk in chunks(level):
            members = select(*columns).where(jobs.c.parent_id.in_(chunk), *where)
            for row in tx.execute("members", members.order_by(jobs.c.id)):
                if row.id not in found:
                    found[row.id] = row
                    below.append(row.id)
        level = below
    return list(found.values())


def ancestors(tx: Transaction, ids: Collection[int]) -> list[Any]:
    """What is around these jobs, innermost first: (id, parent_id, type, group_key, state, reason, reason_job_id,
    container, cancel_requested_at)."""
    columns = (
        *(jobs.c.id, jobs.c.parent_id, jobs.c.state, jobs.c.reason, jobs.c.reason_job_id, jobs.c.container),
        *(jobs.c.cancel_requested_at, jobs.c.type, jobs.c.group_key),
    )
    found: dict[int, Any] = {}
    level = sorted(ids)
    while level:
        above: set[int] = set()
        for chunk in chunks(level):
            parents = select(jobs.c.parent_id).where(jobs.c.id.in_(chunk))
            above |= {parent for parent in tx.execute("parents", parents.distinct()).scalars() if parent is not None}
        level = sorted(above - found.keys())
        for chunk in chunks(level):
            rows = tx.execute("around", select(*columns).where(jobs.c.id.in_(chunk)))
            found |= {row.id: row for row in rows}
    return list(found.values())


def find_around(tx: Transaction, ids: Collection[int], is_meant: Callable[[Any], bool]) -> dict[int, Any]:
    """Job -> the innermost of its `ancestors` that is meant, for those jobs that have one."""
    rows = {row.id: row for row in ancestors(tx, ids)}
    if not any(is_meant(row) for row in rows.values()):
        return {}
    parents = {job_id: row.parent_id for job_id, row in rows.items()} | parents_of(tx, ids)
    found: dict[int, Any] = {}
    for job_id in ids:
        above = parents.get(job_id)
        while above is not None and job_id not in found:
            if is_meant(rows[above]):
                found[job_id] = rows[above]
            above = parents.get(above)
    return found


def parents_of(tx: Transaction, ids: Collection[int]) -> dict[int, int | None]:
    """Job -> the container that it is in, if any."""
    found: dict[int, int | None] = {}
    wanted = sorted(ids)
    for chunk in chunks(wanted):
        statement = select(jobs.c.id, jobs.c.parent_id).where(jobs.c.id.in_(chunk))
        found |= {row.id: row.parent_id for row in tx.execute("parents", statement)}
    return found


def with_members(tx: Transaction, ids: Sequence[int]) -> set[int]:
    """Those of `ids` that have members, whether they are containers or not."""
    found: set[int] = set()
    for chunk in chunks(ids):
        statement = select(jobs.c.parent_id).where(jobs.c.parent_id.in_(chunk)).distinct()
        found |= set(tx.execute("parents_among", statement).scalars())
    return found
