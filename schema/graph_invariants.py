"""What must hold of dependencies and containers at every commit; the form is that of invariants.py. Reads only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, exists, func, not_, or_, select
from sqlalchemy.sql import FromClause

from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.intents import is_left
from sqljobs.schema.invariants import STALE, Condition, Invariant, among_jobs, in_slice, in_states
from sqljobs.schema.states import FINAL, OPEN, UNCLAIMED, State
from sqljobs.schema.tables import COUNTERS, job_deps, jobs

_upstream = jobs.alias("upstream")
_parent = jobs.alias("parent")
_child = jobs.alias("child")
_FINAL = sorted(state.value for state in FINAL)
_edges_of_jobs = job_deps.join(jobs, jobs.c.id == job_deps.c.job_id)
_edges = _edges_of_jobs.join(_upstream, _upstream.c.id == job_deps.c.depends_on_id)


def _ended_well() -> Condition:
    return or_(_upstream.c.state == State.DONE.value, func.coalesce(_upstream.c.reason, "") == "not_needed")


def _satisfying() -> Condition:
    """`graph.edge_of` in SQL: the upstream's state satisfies the edge."""
    return and_(_upstream.c.state.in_(_FINAL), or_(job_deps.c.kind != "ok", _ended_well()))


def _breaking() -> Condition:
    return and_(_upstream.c.state.in_(_FINAL), job_deps.c.kind == "ok", not_(_ended_well()))


def _among_edges(*broken: Condition, of: FromClause = _edges) -> Select[Any]:
    where = (in_slice(job_deps.c.job_id), *broken)
    return select(job_deps.c.job_id).select_from(of).where(*where).distinct()


def unsatisfied(job_id: ColumnElement[Any]) -> Any:
    """How many edges of the job are unsatisfied, as a scalar subquery."""
    edges = select(func.count()).where(job_deps.c.job_id == job_id, is_unset(job_deps.c.satisfied))
    return edges.scalar_subquery()


def _unmet_deps() -> Select[Any]:
    return among_jobs(jobs.c.unmet_deps != unsatisfied(jobs.c.id))


def _blocked() -> Select[Any]:
    must_wait = or_(jobs.c.unmet_deps > 0, jobs.c.closed_gates > 0)
    waits = jobs.c.state == State.BLOCKED.value
    runs = in_states({State.SCHEDULED, State.READY, State.LEASED, State.RUNNING, State.WAITING})
    return among_jobs(and_(waits, not_(must_wait)), and_(runs, must_wait))


def _satisfied() -> Select[Any]:
    # A retry of the upstream does not un-run what has been claimed; `done`, which alone satisfies `ok`, stays.
    concerned = or_(
        job_deps.c.kind == "ok", and_(in_states(UNCLAIMED), jobs.c.attempt == 0, is_set(job_deps.c.checked))
    )
    return _among_edges(is_set(job_deps.c.satisfied), concerned, not_(_satisfying()))


def _unsatisfied() -> Select[Any]:
    seen = (is_unset(job_deps.c.satisfied), is_set(job_deps.c.checked), not_(is_left("edges", _upstream.c.id)))
    return _among_edges(*seen, _satisfying())


def _not_cancelled() -> Select[Any]:
    seen = (is_unset(job_deps.c.satisfied), is_set(job_deps.c.checked), not_(is_left("edges", _upstream.c.id)))
    return _among_edges(*seen, in_states(OPEN), _breaking())


def _wrongly_cancelled() -> Select[Any]:
    """A key that another has taken meanwhile keeps a job from being reopened; the container around it may be doomed."""
    of_job = job_deps.c.job_id == jobs.c.id
    known = _upstream.c.id == job_deps.c.depends_on_id
    to_look_at = exists().where(of_job, is_unset(job_deps.c.checked))
    culprit = exists().where(of_job, known, _breaking())
    pruned = exists().where(of_job, not_(exists().where(known)))
    doomed = and_(_parent.c.state == State.CANCELLED.value, _parent.c.reason == "dependency")
    # Nothing is opened again in what is being cancelled.
    around = exists().where(_parent.c.id == jobs.c.parent_id, or_(doomed, _parent.c.cancel_requested_at.is_not(None)))
    return among_jobs(
        and_(
            jobs.c.state == State.CANCELLED.value,
            jobs.c.reason == "dependency",
            jobs.c.key.is_(None),
            exists().where(of_job),
            *(not_(excuse) for excuse in (to_look_at, culprit, pruned, around)),
        ),
    )


def _not_needed() -> Select[Any]:
    """`edges.not_needed` as a rule, for jobs that nobody has claimed yet."""
    mine = (job_deps.c.job_id == jobs.c.id, job_deps.c.kind == "not_ok")
    undecided = or_(is_unset(job_deps.c.satisfied), is_unset(job_deps.c.checked))
    bad = and_(_upstream.c.id == job_deps.c.depends_on_id, _upstream.c.state.in_(_FINAL), not_(_ended_well()))
    return among_jobs(
        and_(
            in_states(UNCLAIMED),
            jobs.c.attempt == 0,
            exists().where(*mine),
            not_(exists().where(*mine, undecided)),
            not_(exists().where(*mine, bad)),
        )
    )


def _unchecked() -> Select[Any]:
    long_ended = and_(_upstream.c.state.in_(_FINAL), _upstream.c.ended_at < STALE)
    return _among_edges(is_unset(job_deps.c.checked), long_ended, jobs.c.updated_at < STALE)


def _missing() -> Select[Any]:
    upstream = exists().where(_upstream.c.id == job_deps.c.depends_on_id)
    all_edges = job_deps.outerjoin(jobs, jobs.c.id == job_deps.c.job_id)
    # What an open job waits for is not pruned.
    return _among_edges(or_(jobs.c.id.is_(None), and_(in_states(OPEN), not_(upstream))), of=all_edges)


def child_counts(where: Condition) -> Select[Any]:
    """For parents of the children that meet `where`: how many are open, and how many ended in which way.

    One that has ended, and that a supervisor is yet to count, is open to its parent."""
    ended = and_(_child.c.state.in_(_FINAL), not_(is_left("child", _child.c.id)))
    ways = (
        not_(ended),
        *(and_(ended, _child.c.state == state.value) for state in (State.DONE, State.FAILED, State.CANCELLED)),
        and_(ended, func.coalesce(_child.c.reason, "") == "not_needed"),
    )
    counts = (func.sum(case((way, 1), else_=0)).label(column.name) for way, column in zip(ways, COUNTERS, strict=True))
    return select(_child.c.parent_id, *counts).where(where).group_by(_child.c.parent_id)


def children_of(job_ids: Any) -> Condition:
    """The children of the jobs `job_ids`, for `child_counts`."""
    return _child.c.parent_id.in_(job_ids)


def keeps_counters() -> Condition:
    """`members.counts_members` in SQL."""
    return or_(is_set(jobs.c.container), in_states(FINAL))


def _children() -> Select[Any]:
    counted = child_counts(in_slice(_child.c.parent_id)).subquery("counted")
    wrong = or_(*(column != func.coalesce(counted.c[column.name], 0) for column in COUNTERS))
    # With an intent some are written that are yet to be counted.
    return among_jobs(and_(keeps_counters(), wrong, not_(is_left("members")))).select_from(
        jobs.outerjoin(counted, counted.c.parent_id == jobs.c.id)
    )


def _parents() -> Select[Any]:
    with_parent = jobs.outerjoin(_parent, _parent.c.id == jobs.c.parent_id)
    ended = and_(_parent.c.state.in_(_FINAL), not_(is_left("members", _parent.c.id)))
    no_parent = or_(_parent.c.id.is_(None), ended)
    asked = jobs.c.cancel_requested_at.is_not(None)  # the job around it failed, and this one runs until it is killed
    return among_jobs(and_(jobs.c.parent_id.is_not(None), in_states(OPEN), no_parent, not_(asked))).select_from(
        with_parent
    )


def _roll_up() -> Select[Any]:
    over = and_(jobs.c.open_children == 0, is_unset(jobs.c.awaits_child), not_(is_left("members")))
    return among_jobs(and_(jobs.c.state == State.WAITING.value, over))


def _gates() -> Select[Any]:
    with_parent = jobs.outerjoin(_parent, _parent.c.id == jobs.c.parent_id)
    around = case((_parent.c.state == State.BLOCKED.value, 1), else_=0)
    concerned = in_states({*UNCLAIMED, State.WAITING})
    wrong = and_(concerned, jobs.c.closed_gates != around, not_(is_left("members", _parent.c.id)))
    return among_jobs(wrong).select_from(with_parent)


GRAPH_INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "unmet_deps", "the counter `unmet_deps` is not the number of unsatisfied edges", _unmet_deps(), repair=True
    ),
    Invariant("blocked", "blocked without anything to wait for, or not blocked with it", _blocked(), repair=True),
    Invariant("satisfied", "a dependency counts as satisfied, but that job has not ended so", _satisfied()),
    Invariant("unsatisfied", "a dependency counts as unsatisfied, but that job has ended as it should", _unsatisfied()),
    Invariant("not_cancelled", "still open, though a dependency has ended badly", _not_cancelled()),
    Invariant("wrongly_cancelled", "cancelled for a dependency, though none has ended badly", _wrongly_cancelled()),
    Invariant("not_needed", "waits for a failure that cannot come any more", _not_needed()),
    Invariant("unchecked", "a dependency ended long ago, and no supervisor has looked", _unchecked(), late=True),
    Invariant("missing_job", "dependencies of, or open jobs that wait for, jobs that do not exist", _missing()),
    Invariant("children", "the counters of children are not the numbers of children", _children(), repair=True),
    Invariant("parent", "open in a container that has ended, or does not exist", _parents()),
    Invariant("roll_up", "still waiting, though all children have ended", _roll_up()),
    Invariant("gates", "the counter `closed_gates` does not follow from the container around the job", _gates()),
)
