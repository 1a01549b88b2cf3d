"""Read the neighbourhood of a job for a picture: breadth first, level by level, bounded. Writes and draws nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sqlalchemy import ColumnElement, Executable, FromClause, Row, and_, bindparam, func, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.errors import UnknownJob
from sqljobs.schema.graph import Edge, edge_of
from sqljobs.schema.job_info import Progress, StateReason
from sqljobs.schema.neighbourhood import PRUNED, Graph, GraphEdge, GraphJob, LeftOut, Relation
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction

JOBS_SHOWN = 200
CROWD = 20  # neighbours of one kind that a job may have and still all of them be shown
FIRST_FEW = 5


@dataclass(frozen=True)
class _Around:
    """The neighbours of one kind that a job has: how many in each state, and those to be shown."""

    counts: Mapping[str, int]
    shown: Sequence[GraphJob]

    @property
    def is_crowd(self) -> bool:
        return sum(self.counts.values()) > CROWD


def read_graph(tx: Transaction, job_id: int, limit: int = JOBS_SHOWN) -> Graph:
    """At most `limit` jobs around `job_id`: what they wait for, what waits for them, containers and their members.

    At most five statements a level for every 500 jobs. Raises `UnknownJob`."""
    found = {job.id: job for job in _by_ids(tx, [job_id])}
    if not found:
        raise UnknownJob(f"there is no job {job_id}")
    around: dict[tuple[int, Relation], _Around] = {}
    frontier = [job_id]
    while frontier:  # the last level is asked, too: what is beside it is counted
        near = _neighbours(tx, [found[one] for one in frontier])
        around |= near
        places = product(frontier, Relation)
        new = {job.id: job for place in places if place in near for job in near[place].shown if job.id not in found}
        frontier = list(new)[: limit - len(found)]
        found |= {one: new[one] for one in frontier}
    edges = _edges(tx, found)
    members = {job: neighbours.counts for (job, kind), neighbours in around.items() if kind is Relation.MEMBERS}
    return Graph(job_id, found, tuple(edges), members, tuple(_left_out(around, found, edges)))


def _neighbours(tx: Transaction, of: Sequence[GraphJob]) -> dict[tuple[int, Relation], _Around]:
    found: dict[tuple[int, Relation], _Around] = {}
    for chunk in chunks(of):
        ids = [job.id for job in chunk]
        parents = {job.id: job for job in _by_ids(tx, sorted({job.parent for job in chunk if job.parent is not None}))}
        for job in chunk:
            if job.parent is not None:
                parent = parents.get(job.parent)
                state = PRUNED if parent is None else parent.state
                found[job.id, Relation.CONTAINER] = _Around({state: 1}, () if parent is None else (parent,))
        for relation, statement in _STATEMENTS.items():
            by_owner: dict[int, list[Row[Any]]] = {}
            for row in tx.execute(relation, statement, {"owners": ids}):
                by_owner.setdefault(row.owner, []).append(row)
            found |= {(owner, relation): _chosen(rows) for owner, rows in by_owner.items()}
    return found


def _chosen(rows: Sequence[Row[Any]]) -> _Around:
    """All that there are; of a crowd the first few and those that failed."""
    neighbours = _Around({row.state or PRUNED: row.total for row in rows}, ())
    there = [row for row in rows if row.state is not None]
    if neighbours.is_crowd:
        there = [row for place, row in enumerate(there) if place < FIRST_FEW or row.state == State.FAILED]
    return _Around(neighbours.counts, [_job(row) for row in there])


def _left_out(
    around: Mapping[tuple[int, Relation], _Around], shown: Mapping[int, GraphJob], edges: Sequence[GraphEdge]
) -> Iterator[LeftOut]:
    """What there is around the shown jobs, less what is shown of it."""
    drawn = Counter((edge.job_id, Relation.UPSTREAMS, shown[edge.upstream].state) for edge in edges)
    drawn += Counter((edge.upstream, Relation.DEPENDENTS, shown[edge.job_id].state) for edge in edges)
    for job in shown.values():
        if job.parent is not None and job.parent in shown:
            drawn[job.parent, Relation.MEMBERS, job.state] += 1
            drawn[job.id, Relation.CONTAINER, shown[job.parent].state] += 1
    for (job_id, relation), neighbours in around.items():
        counts = {state: count - drawn[job_id, relation, state] for state, count in neighbours.counts.items()}
        left = {state: count for state, count in counts.items() if count > 0}
        if left:
            yield LeftOut(job_id, relation, left, neighbours.is_crowd)


_OF_A_JOB = (
    *(jobs.c.id, jobs.c.type, jobs.c.state, jobs.c.key, jobs.c.reason, jobs.c.reason_text, jobs.c.reason_job_id),
    *(jobs.c.container, jobs.c.parent_id, jobs.c.attempt, jobs.c.max_attempts, jobs.c.run_after),
    *(jobs.c.progress_done, jobs.c.progress_total, jobs.c.progress_note, jobs.c.cancel_requested_at),
)


def _sample(source: FromClause, owner: ColumnElement[Any], neighbour: ColumnElement[Any]) -> Executable:
    """Of each owner's neighbours the first in every state, and how many there are in that state.

    Only ids and states are numbered, the rest is read of the few: a crowd may have ten thousand."""
    kinds = (owner, jobs.c.state)
    numbered = (
        select(
            owner.label("owner"),
            neighbour.label("neighbour"),
            func.row_number().over(partition_by=kinds, order_by=neighbour).label("place"),
            func.count().over(partition_by=kinds).label("total"),
        )
        .select_from(source)
        .where(owner.in_(bindparam("owners", expanding=True)))
        .subquery("numbered")
    )
    return (
        select(numbered.c.owner, numbered.c.total, *_OF_A_JOB)
        .join_from(numbered, jobs, jobs.c.id == numbered.c.neighbour, isouter=True)
        .where(numbered.c.place <= CROWD)
        .order_by(numbered.c.neighbour)
    )


_STATEMENTS = {
    Relation.UPSTREAMS: _sample(
        job_deps.outerjoin(jobs, jobs.c.id == job_deps.c.depends_on_id), job_deps.c.job_id, job_deps.c.depends_on_id
    ),
    Relation.MEMBERS: _sample(jobs, jobs.c.parent_id, jobs.c.id),
    Relation.DEPENDENTS: _sample(
        job_deps.join(jobs, jobs.c.id == job_deps.c.job_id), job_deps.c.depends_on_id, job_deps.c.job_id
    ),
}


def _by_ids(tx: Transaction, ids: Sequence[int]) -> list[GraphJob]:
    if not ids:
        return []
    return [_job(row) for row in tx.execute("jobs", select(*_OF_A_JOB).where(jobs.c.id.in_(ids)))]


def _job(row: Row[Any]) -> GraphJob:
    ended = State(row.state) in FINAL
    return GraphJob(
        id=row.id,
        type=row.type,
        state=row.state,
        key=row.key,
        reason=StateReason(row.reason, row.reason_text, row.reason_job_id) if ended and row.reason else None,
        container=bool(row.container),
        parent=row.parent_id,
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        run_after=row.run_after,
        progress=None
        if row.progress_done is None
        else Progress(row.progress_done, row.progress_total, row.progress_note),
        cancelling=not ended and row.cancel_requested_at is not None,
    )


def _edges(tx: Transaction, shown: Mapping[int, GraphJob]) -> list[GraphEdge]:
    """The edges that have both ends in the picture, in the order in which each job was given them."""
    portions = list(chunks(list(shown)))
    columns = (job_deps.c.job_id, job_deps.c.depends_on_id, job_deps.c.kind, job_deps.c.satisfied)
    order = (job_deps.c.job_id, job_deps.c.position, job_deps.c.depends_on_id)
    found: list[GraphEdge] = []
    for waiting, upstreams in product(portions, portions):
        both = and_(job_deps.c.job_id.in_(waiting), job_deps.c.depends_on_id.in_(upstreams))
        for row in tx.execute("edges", select(*columns).where(both).order_by(*order)):
            upstream = shown[row.depends_on_id]
            reason = None if upstream.reason is None else upstream.reason.code
            # What was satisfied stays so for a job that began, though its upstream is run again.
            standing = Edge.SATISFIED if row.satisfied else edge_of(row.kind, upstream.state, reason)
            found.append(GraphEdge(row.job_id, row.depends_on_id, row.kind, standing))
    return found
