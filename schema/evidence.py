"""What the supervisor learns of a dead process, written on the attempt's row after the reaping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, select, update

from sqljobs.schema.conditions import in_pairs
from sqljobs.schema.headlines import headline
from sqljobs.schema.moves import Fence
from sqljobs.schema.tables import job_attempts, jobs
from sqljobs.schema.transactions import Transaction


@dataclass(frozen=True)
class Evidence:
    """How the process of one attempt ended. `cpu_seconds` and `max_rss_bytes` as the kernel counted them.

    `stack_dump`: what its threads were at when it was stopped, if it was. `log_tail`: the end of what it printed, safe
    to store; None: nothing."""

    fence: Fence
    pid: int
    start_ticks: int
    exit_code: int | None
    signal: str | None
    cpu_seconds: float
    max_rss_bytes: int
    log_tail: str | None = None
    stack_dump: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What the rows say of an attempt whose process is gone."""

    cause: str | None
    state: str
    why: str | None


def record_evidence(tx: Transaction, found: Sequence[Evidence]) -> None:
    """Write all of it; the rows of attempts that other hands have ended take it, too: it is about the process."""
    statement = (
        update(job_attempts)
        .where(
            job_attempts.c.job_id == bindparam("b_job_id"),
            job_attempts.c.attempt == bindparam("b_attempt"),
            job_attempts.c.owner == bindparam("b_owner"),
        )
        .values(
            pid=bindparam("b_pid"),
            start_ticks=bindparam("b_start_ticks"),
            exit_code=bindparam("b_exit_code"),
            signal=bindparam("b_signal"),
            cpu_seconds=bindparam("b_cpu_seconds"),
            max_rss_bytes=bindparam("b_max_rss_bytes"),
            log_tail=bindparam("b_log_tail"),
            stack_dump=bindparam("b_stack_dump"),
        )
    )
    rows = [
        {
            "b_job_id": one.fence.job_id,
            "b_attempt": one.fence.attempt,
            "b_owner": one.fence.owner,
            "b_pid": one.pid,
            "b_start_ticks": one.start_ticks,
            "b_exit_code": one.exit_code,
            "b_signal": one.signal,
            "b_cpu_seconds": one.cpu_seconds,
            "b_max_rss_bytes": one.max_rss_bytes,
            "b_log_tail": one.log_tail,
            "b_stack_dump": one.stack_dump,
        }
        for one in found
    ]
    tx.execute("evidence", statement, rows)


def verdicts(tx: Transaction, fences: Sequence[Fence]) -> dict[Fence, Verdict]:
    """What became of these attempts."""
    statement = (
        select(
            job_attempts.c.job_id,
            job_attempts.c.attempt,
            job_attempts.c.owner,
            job_attempts.c.cause,
            job_attempts.c.error,
            jobs.c.state,
        )
        .join(jobs, jobs.c.id == job_attempts.c.job_id)
        .where(in_pairs(job_attempts.c.job_id, job_attempts.c.attempt, [fence[:2] for fence in fences]))
    )
    return {
        Fence(row.job_id, row.attempt, row.owner): Verdict(row.cause, row.state, headline(row.error))
        for row in tx.execute("verdicts", statement)
    }
