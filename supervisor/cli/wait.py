"""`sqljobs wait`: until jobs have ended, and how."""

from __future__ import annotations

import click

from sqljobs.schema.durations import parse_duration
from sqljobs.schema.errors import WaitTimeout
from sqljobs.schema.job_info import JobInfo
from sqljobs.schema.jobs_read import read_jobs
from sqljobs.schema.progress import read_progress
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.failures import ANSWER_IS_NO, TIMED_OUT, report
from sqljobs.supervisor.cli.output import Column, print_json, print_rich, state_text, table
from sqljobs.supervisor.cli.progress import Shown, live
from sqljobs.supervisor.cli.selection import job_id as parse_id
from sqljobs.worker_runtime.wait import Watch, wait_for_end

COLUMNS = (
    Column("ID", right=True),
    Column("STATE"),
    Column("TYPE", flexible=True),
    Column("WHY", need=1, flexible=True),
)


@click.command("wait")
@click.argument("ids", type=parse_id, nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", metavar="DURATION", help="Give up after this long (exit 3).")
@common_options
@pass_call
def wait(call: Call, ids: tuple[int, ...], timeout: str | None) -> int:
    """Wait until jobs have ended. Exit 0: all well; 1: one failed or was cancelled; 3: timed out."""
    seconds = None if timeout is None else parse_duration(timeout, what="--timeout")
    late: WaitTimeout | None = None
    with call.database() as database:
        try:
            with live() as show:
                wait_for_end(database, ids, seconds, show and _watch(show))
        except WaitTimeout as error:
            late = error
        infos = database.read("wait", lambda tx: read_jobs(tx, ids))
    if call.as_json:
        print_json([info.as_json() for info in infos])
    else:
        print_rich(table(COLUMNS, [_row(info) for info in infos]))
    if late is not None:
        call.as_json = False  # the array is the answer already
        return report(late, call, TIMED_OUT)
    return 0 if all(ended_well(info) for info in infos) else ANSWER_IS_NO


def _watch(show: Shown) -> Watch:
    return lambda tx, pending: show(read_progress(tx, pending), len(pending))


def ended_well(info: JobInfo) -> bool:
    """Done, or not needed in the end."""
    return info.state == "done" or (
        info.state == "cancelled" and info.reason is not None and info.reason.code == "not_needed"
    )


def _row(info: JobInfo) -> list[object]:
    return [info.id, state_text(info.state), info.type, None if info.reason is None else info.reason.text]
