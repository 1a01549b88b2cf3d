"""Read jobs as `JobInfo`, by id or by selection, in a number of statements that does not grow with the jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, exists, func, select

from sqljobs.schema.amounts import numbers_of, total_of
from sqljobs.schema.chunks import chunks
from sqljobs.schema.errors import UnknownJob
from sqljobs.schema.held_jobs import held_reasons
from sqljobs.schema.job_info import AttemptInfo, ChildCounts, Dependency, JobInfo, Progress, StateReason
from sqljobs.schema.states import State
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Transaction

CHILDREN_SHOWN = 100


@dataclass(frozen=True)
class Selection:
    """Which jobs: all conditions that are given must hold. `since`: changed at or after that time."""

    ids: Sequence[int] = ()
    states: Sequence[str] = ()
    types: Sequence[str] = ()
    groups: Sequence[str] = ()
    parent: int | None = None
    key: str | None = None
    cause: str | None = None
    since: datetime | None = None

    def condition(self) -> ColumnElement[bool]:
        """The rows meant, as SQL."""
        parts: list[ColumnElement[bool]] = [jobs.c.id > 0]
        for column, wanted in ((jobs.c.id, self.ids), (jobs.c.state, self.states), (jobs.c.type, self.types)):
            if wanted:
                parts.append(column.in_(list(wanted)))
        if self.groups:
            parts.append(jobs.c.group_key.in_(list(self.groups)))
        if self.parent is not None:
            parts.append(jobs.c.parent_id == self.parent)
        if self.key is not None:
            parts.append(jobs.c.key == self.key)
        if self.cause is not None:
            last = and_(job_attempts.c.job_id == jobs.c.id, job_attempts.c.attempt == jobs.c.attempt)
            parts.append(exists().where(last, job_attempts.c.cause == self.cause))
        if self.since is not None:
            parts.append(jobs.c.updated_at >= self.since)
        return and_(*parts)


def select_ids(tx: Transaction, selection: Selection, limit: int | None = None) -> list[int]:
    """Ids of the jobs meant, newest first."""
    statement = select(jobs.c.id).where(selection.condition()).order_by(jobs.c.id.desc()).limit(limit)
    return list(tx.execute("select", statement).scalars())


def read_jobs(tx: Transaction, ids: Sequence[int]) -> list[JobInfo]:
    """The jobs `ids`, in that order. Raises `UnknownJob` for one that is not there."""
    found: dict[int, JobInfo] = {}
    for chunk in chunks(ids):
        found |= _read_chunk(tx, list(chunk))
    for job_id in ids:
        if job_id not in found:
            raise UnknownJob(f"there is no job {job_id}")
    return [found[job_id] for job_id in ids]


def read_states(tx: Transaction, ids: Sequence[int]) -> dict[int, str]:
    """The states of `ids`, for waiting. Raises `UnknownJob` for one that is not there."""
    found: dict[int, str] = {}
    for chunk in chunks(ids):
        rows = tx.execute("states", select(jobs.c.id, jobs.c.state).where(jobs.c.id.in_(chunk)))
        found |= {row.id: row.state for row in rows}
    for job_id in ids:
        if job_id not in found:
            raise UnknownJob(f"there is no job {job_id}")
    return found


def _read_chunk(tx: Transaction, ids: list[int]) -> dict[int, JobInfo]:
    rows = tx.execute("jobs", select(jobs).where(jobs.c.id.in_(ids))).all()
    attempts = _grouped(
        tx.execute(
            "attempts",
            select(job_attempts).where(job_attempts.c.job_id.in_(ids)).order_by(job_attempts.c.attempt),
        ),
        "job_id",
    )
    upstream = jobs.alias("upstream")
    edges = _grouped(
        tx.execute(
            "edges",
            select(job_deps, upstream.c.state.label("upstream_state"))
            .join_from(job_deps, upstream, upstream.c.id == job_deps.c.depends_on_id, isouter=True)
            .where(job_deps.c.job_id.in_(ids))
            .order_by(job_deps.c.position),
        ),
        "job_id",
    )
    children = _children(tx, ids)
    held = held_reasons(tx, rows)
    return {
        row.id: _info(
            *(row, attempts.get(row.id, []), edges.get(row.id, []), children.get(row.id, ()), held.get(row.id))
        )
        for row in rows
    }


def _grouped(rows: Iterable[Row[Any]], name: str) -> dict[int, list[Any]]:
    grouped: dict[int, list[Any]] = {}
    for row in rows:
        grouped.setdefault(getattr(row, name), []).append(row)
    return grouped


def _children(tx: Transaction, ids: list[int]) -> dict[int, tuple[int, ...]]:
    place = func.row_number().over(partition_by=jobs.c.parent_id, order_by=jobs.c.id).label("place")
    numbered = select(jobs.c.id, jobs.c.parent_id, place).where(jobs.c.parent_id.in_(ids)).subquery("numbered")
    rows = tx.execute("children", select(numbered).where(numbered.c.place <= CHILDREN_SHOWN).order_by(numbered.c.id))
    return {parent: tuple(row.id for row in members) for parent, members in _grouped(rows, "parent_id").items()}


def _error(row: Any, tries: Sequence[AttemptInfo]) -> str | None:
    """The last one; none of a job that has been done since."""
    errors = (attempt.error for attempt in reversed(tries) if attempt.error)
    return None if row.state == State.DONE else next(errors, None)


def _info(
    row: Any, attempts: Sequence[Any], edges: Sequence[Any], children: tuple[int, ...], held: StateReason | None
) -> JobInfo:
    tries = tuple(_attempt(attempt) for attempt in attempts)
    return JobInfo(
        id=row.id,
        type=row.type,
        state=row.state,
        reason=held or reason_of(row, edges),
        args=row.args,
        result=row.result,
        error=_error(row, tries),
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        group=row.group_key,
        weight=row.weight,
        priority=row.priority,
        key=row.key,
        container=bool(row.container),
        parent=row.parent_id,
        children=children,
        child_counts=ChildCounts(row.done_children, row.failed_children, row.cancelled_children, row.open_children),
        after=tuple(Dependency(edge.depends_on_id, edge.kind, edge.upstream_state) for edge in edges),
        run_after=row.run_after,
        timeout=row.timeout,
        memory=row.memory,
        uses=numbers_of(row.uses),
        spent=numbers_of(total_of(attempt.spent for attempt in attempts)),
        devices=attempts[-1].devices if attempts else None,
        progress=None
        if row.progress_done is None
        else Progress(row.progress_done, row.progress_total, row.progress_note),
        lease_owner=row.lease_owner,
        lease_expires=row.lease_expires,
        heartbeat_at=row.heartbeat_at,
        created_at=row.created_at,
        updated_at=row.updated_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        attempts=tries,
    )


def _attempt(row: Any) -> AttemptInfo:
    columns = {name: getattr(row, name) for name in AttemptInfo.__dataclass_fields__}
    return AttemptInfo(**{**columns, "used": numbers_of(row.used), "spent": numbers_of(row.spent)})


def reason_of(row: Any, edges: Sequence[Any]) -> StateReason | None:
    """For a final job what was written; for an open one what its row shows."""
    match State(row.state):
        case State.BLOCKED:
            waits = next((edge.depends_on_id for edge in edges if not edge.satisfied), None)
            if waits is None:
                return StateReason("dependency", f"waits with container {row.parent_id}", job_id=row.parent_id)
            return StateReason("dependency", f"waits for job {waits}", job_id=waits)
        case State.SCHEDULED:
            return StateReason("scheduled", "waits for its time", until=row.run_after)
    return None if row.reason is None else StateReason(row.reason, row.reason_text, row.reason_job_id)
