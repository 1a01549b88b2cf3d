"""`sqljobs list`: jobs as a table, newest first."""

from __future__ import annotations

from datetime import datetime

import click

from sqljobs.schema.job_info import JobInfo, Progress
from sqljobs.schema.jobs_list import ListedJob
from sqljobs.schema.jobs_list import list_jobs as read_list
from sqljobs.schema.transactions import Transaction
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.output import Column, print_json, print_lines, print_rich, state_text, table
from sqljobs.supervisor.cli.selection import Asked, selection_options
from sqljobs.supervisor.cli.times import age

COLUMNS = (
    Column("ID", right=True),
    Column("STATE"),
    Column("TYPE", flexible=True),
    Column("GROUP", need=3, flexible=True),
    Column("KEY", need=4, flexible=True),
    Column("ATTEMPT", need=5, right=True),
    Column("CHANGED", need=2, right=True),
    Column("WHY", need=1, flexible=True, style="dim"),
)


@click.command("list")
@selection_options
@click.option("--limit", type=click.IntRange(1, 1_000_000_000), default=50, show_default=True, help="At most so many.")
@click.option("--ids", "only_ids", is_flag=True, help="Print ids alone, one a line.")
@common_options
@pass_call
def list_jobs(call: Call, asked: Asked, limit: int, only_ids: bool) -> int:
    """List jobs, newest first; without SELECTION, all of them."""

    def read(tx: Transaction) -> tuple[list[ListedJob], datetime]:
        return read_list(tx, asked.matching(tx, limit)), tx.now

    with call.database() as database:
        listed, now = database.read("list", read)
    if only_ids:
        print_lines([job.id for job in listed])
    elif call.as_json:
        print_json([job.as_json() for job in listed])
    elif listed:
        print_rich(table(COLUMNS, [_row(job, now) for job in listed]))
    else:
        print_lines(["no jobs"])
    return 0


def _row(job: ListedJob, now: datetime) -> list[object]:
    tries = f"{job.attempt}/{job.max_attempts}" if job.attempt else None
    return [
        job.id,
        state_text(job.state),
        job.type,
        job.group,
        job.key,
        tries,
        age(job.updated_at, now),
        _why(job, now),
    ]


def _why(job: ListedJob, now: datetime) -> str | None:
    if job.state == "scheduled":
        return f"waits for its time, {age(job.run_after, now)}"
    if job.progress is not None and job.ended_at is None:
        return progress_text(job.progress)
    if job.reason is not None and job.reason.until is not None:
        return f"{job.reason.text or job.reason.code}, ends {age(job.reason.until, now)}"
    return first_member_text(job) if job.reason is None else job.reason.text or job.reason.code


def first_member_text(job: ListedJob | JobInfo) -> str | None:
    """What to do about a container that has not had a member yet."""
    if job.state != "waiting" or not job.container or any(vars(job.child_counts).values()):
        return None
    return f"waits for its first member; add one with enqueue --parent {job.id}, or cancel it"


def progress_text(progress: Progress) -> str:
    """`3 of 10, note`."""
    total = "" if progress.total is None else f" of {progress.total:g}"
    return f"{progress.done:g}{total}" + (f", {progress.note}" if progress.note else "")
