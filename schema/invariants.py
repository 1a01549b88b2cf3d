"""What must hold of jobs and attempts at every commit: each rule is one SELECT of those that break it. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Select,
    Table,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    not_,
    or_,
    select,
)

from sqljobs.schema.columns import Id, UtcTime
from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.limit_tables import job_charges
from sqljobs.schema.ready import definition
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_attempts, job_deps, jobs

Condition = ColumnElement[bool]


# What a statement is asked with. `stale`: what is older, some supervisor should have dealt with.
AFTER, LAST = bindparam("after", type_=Id), bindparam("last", type_=Id)
NOW, STALE = bindparam("now", type_=UtcTime()), bindparam("stale", type_=UtcTime())


@dataclass(frozen=True)
class Invariant:
    """`broken` selects the ids of the jobs that break it, among those above `:after` and up to `:last`.

    `repair`: counters that `--repair` can compute anew. `late`: no rule is broken, but a supervisor should have acted
    before `:stale`."""

    code: str
    text: str
    broken: Select[Any]
    repair: bool = False
    late: bool = False


def in_slice(job_id: ColumnElement[Any]) -> Condition:
    """`job_id` is one of those that the statement is asked about."""
    return and_(job_id > AFTER, job_id <= LAST)


def among_jobs(*broken: Condition) -> Select[Any]:
    """The jobs of the slice that meet one of `broken`."""
    return select(jobs.c.id).where(in_slice(jobs.c.id), or_(*broken))


def in_states(states: Any) -> Condition:
    """The job's state is one of these."""
    return jobs.c.state.in_(sorted(state.value for state in states))


def _forbidden(table: Table, job_id: ColumnElement[Any]) -> Select[Any]:
    checks = sorted(str(one.sqltext) for one in table.constraints if isinstance(one, CheckConstraint))
    broken = or_(*(not_(literal_column(f"({check})")) for check in checks))
    return select(job_id).where(in_slice(job_id), broken).distinct()


def _attempt_numbers() -> Select[Any]:
    """With the primary key, as many as the highest and none below 1 means: without gaps."""
    numbers = (
        select(
            job_attempts.c.job_id,
            func.count().label("rows"),
            func.min(job_attempts.c.attempt).label("first"),
            func.max(job_attempts.c.attempt).label("last"),
        )
        .where(in_slice(job_attempts.c.job_id))
        .group_by(job_attempts.c.job_id)
        .subquery("numbers")
    )
    return among_jobs(
        func.coalesce(numbers.c.rows, 0) != jobs.c.attempt,
        func.coalesce(numbers.c.last, 0) != jobs.c.attempt,
        numbers.c.first < 1,
    ).select_from(jobs.outerjoin(numbers, numbers.c.job_id == jobs.c.id))


def _open_attempts() -> Select[Any]:
    of_job = job_attempts.c.job_id == jobs.c.id
    current = exists().where(
        of_job,
        job_attempts.c.attempt == jobs.c.attempt,
        job_attempts.c.owner == jobs.c.lease_owner,
        job_attempts.c.cause.is_(None),
    )
    other = exists().where(
        of_job,
        job_attempts.c.cause.is_(None),
        or_(is_unset(jobs.c.in_flight), job_attempts.c.attempt != jobs.c.attempt),
    )
    return among_jobs(and_(is_set(jobs.c.in_flight), not_(current)), other)


def _accepted(same: bool) -> Condition:
    """An attempt of the job whose result was accepted: the current one, or another."""
    number = job_attempts.c.attempt == jobs.c.attempt if same else job_attempts.c.attempt != jobs.c.attempt
    return exists().where(job_attempts.c.job_id == jobs.c.id, number, job_attempts.c.cause == "done")


def _done() -> Select[Any]:
    skipped = func.coalesce(jobs.c.reason, "") == "skipped"
    return among_jobs(
        and_(jobs.c.state == State.DONE.value, is_unset(jobs.c.container), not_(skipped), not_(_accepted(True))),
    )


def _result_refused() -> Select[Any]:
    # One that has spawned children ends as they do.
    by_children = and_(in_states({State.FAILED, State.CANCELLED}), is_set(jobs.c.container))
    ended_so = or_(in_states({State.DONE, State.WAITING}), by_children)
    return among_jobs(and_(not_(ended_so), _accepted(True)), _accepted(False))


def _cancel_outrun() -> Select[Any]:
    other_ends = in_states(frozenset(State) - {State.LEASED, State.RUNNING, State.WAITING, State.CANCELLED})
    return among_jobs(and_(jobs.c.cancel_requested_at.is_not(None), is_unset(jobs.c.container), other_ends))


def _key_slot() -> Select[Any]:
    taken = or_(not_(in_states(FINAL)), jobs.c.key_for == "ever")
    due = case((taken, jobs.c.key))
    # NULL <> 'x' is neither true nor false.
    return among_jobs(func.coalesce(jobs.c.key_slot, "") != func.coalesce(due, ""))


def _unknown_owner() -> Select[Any]:
    owner = job_supervisors.c.name + "/" + job_supervisors.c.id
    known = exists().where(owner == jobs.c.lease_owner)
    return among_jobs(and_(is_set(jobs.c.in_flight), not_(known)))


def _not_startable() -> Select[Any]:
    due = and_(jobs.c.state == State.SCHEDULED.value, jobs.c.run_after <= NOW)
    startable = or_(jobs.c.state == State.READY.value, due)
    return among_jobs(and_(startable, not_(definition(NOW))))


def _no_time() -> Select[Any]:
    return among_jobs(and_(jobs.c.state == State.SCHEDULED.value, jobs.c.run_after.is_(None)))


def _lapsed() -> Select[Any]:
    return among_jobs(and_(is_set(jobs.c.in_flight), jobs.c.lease_expires < STALE))


def _overdue() -> Select[Any]:
    return among_jobs(and_(jobs.c.state == State.SCHEDULED.value, jobs.c.run_after < STALE))


def _charged_after_its_end() -> Select[Any]:
    holder = exists().where(
        jobs.c.id == job_charges.c.job_id, jobs.c.attempt == job_charges.c.attempt, is_set(jobs.c.in_flight)
    )
    kept = job_charges.c.kind == "rate"  # which counts starts, and goes with its window
    return select(job_charges.c.job_id).where(in_slice(job_charges.c.job_id), not_(kept), not_(holder)).distinct()


def _of_no_job() -> Select[Any]:
    known = exists().where(jobs.c.id == job_attempts.c.job_id)
    return select(job_attempts.c.job_id).where(in_slice(job_attempts.c.job_id), not_(known)).distinct()


INVARIANTS: tuple[Invariant, ...] = (
    Invariant("job_check", "rows that a CHECK of the table forbids", _forbidden(jobs, jobs.c.id)),
    Invariant("dependency_check", "rows that a CHECK of the table forbids", _forbidden(job_deps, job_deps.c.job_id)),
    Invariant(
        "attempt_check", "rows that a CHECK of the table forbids", _forbidden(job_attempts, job_attempts.c.job_id)
    ),
    Invariant("attempt_numbers", "attempts are not numbered 1 to the job's `attempt`", _attempt_numbers()),
    Invariant("open_attempt", "not exactly the attempt in flight is open, under its owner", _open_attempts()),
    Invariant("attempts_of_no_job", "attempts of jobs that do not exist", _of_no_job()),
    Invariant("done_without_attempt", "done, though the last attempt did not end so", _done()),
    Invariant("result_refused", "an attempt was accepted as done, but the job did not end so", _result_refused()),
    Invariant("cancel_outrun", "ended otherwise, or open again, after a cancel", _cancel_outrun()),
    Invariant("key_slot", "the key is taken though the job has ended, or free though it has not", _key_slot()),
    Invariant("unknown_owner", "leased to a supervisor that there is no row of", _unknown_owner()),
    Invariant("ready", "may start by its state, but not by its dependencies", _not_startable()),
    Invariant("charge", "holds part of a limit for an attempt that is over", _charged_after_its_end()),
    Invariant("no_time", "scheduled, but for no time", _no_time()),
    Invariant("lapsed", "the lease ran out long ago, and no supervisor has taken the job back", _lapsed(), late=True),
    Invariant("overdue", "due for long, and no supervisor has made it ready", _overdue(), late=True),
)
