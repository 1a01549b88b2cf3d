"""`sqljobs cancel`, `retry` and `skip`: choose jobs, ask when there are several, act in one transaction."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence

import click

from sqljobs.schema.cancel import cancel as cancel_jobs
from sqljobs.schema.errors import InvalidJob, Refused
from sqljobs.schema.jobs_read import Selection, read_states
from sqljobs.schema.lost_commits import Happened, SettledAct, is_cancelled, is_open_again, is_skipped
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.schema.retry import retry as retry_jobs
from sqljobs.schema.retry import retryable
from sqljobs.schema.retry import skip as skip_jobs
from sqljobs.schema.states import OPEN, State
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.failures import ANSWER_IS_NO
from sqljobs.supervisor.cli.output import print_json, print_lines, write
from sqljobs.supervisor.cli.selection import Asked, selection_options
from sqljobs.supervisor.cli.selection import job_id as parse_id

Act = Callable[[Transaction, Sequence[int]], list[int]]
IDS_SHOWN = 20
TRIES = 3


@click.command("cancel")
@selection_options
@click.option("--now", is_flag=True, help="Kill running ones at once, without asking them to stop.")
@click.option("--dry-run", is_flag=True, help="Only say what would be cancelled.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_call
def cancel(call: Call, asked: Asked, now: bool, dry_run: bool, yes: bool) -> int:
    """Cancel jobs: all that are meant, or none. Filters mean open jobs unless --state says otherwise."""
    with call.database() as database:
        asked = asked.with_default_states([state for state in State if state in OPEN])
        ids = _chosen(database, asked, "cancel")
        if not (yes or dry_run or _agreed("Cancel", ids)):
            return ANSWER_IS_NO

        def act(tx: Transaction, some: Sequence[int]) -> list[int]:
            return cancel_jobs(tx, some, now=now)

        changed = _act(database, asked, ids, act, is_cancelled, dry_run, "cancel")
        running = [] if dry_run else _still_open(database, changed)
    ended = [job_id for job_id in changed if job_id not in running]
    if call.as_json:
        print_json(changed)
    elif dry_run:
        print_lines([f"would cancel {_named(changed)}"])
    else:
        lines = [f"cancelled {_named(ended)}"] if ended else []
        lines = lines or ([] if running else ["cancelled no jobs: none is open that is not being cancelled already"])
        asked_to = "kills it" if now else "stops it"
        lines += (
            [f"asked for the end of {_named(running)}: its supervisor {asked_to} within a heartbeat"] if running else []
        )
        print_lines(lines)
    return 0


@click.command("retry")
@selection_options
@click.option("--from-scratch", is_flag=True, help="Forget their checkpoints, steps and progress.")
@click.option("--dry-run", is_flag=True, help="Only say what would run again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_call
def retry(call: Call, asked: Asked, from_scratch: bool, dry_run: bool, yes: bool) -> int:
    """Start ended jobs again: failed ones, and those that an operator cancelled. Reopens what their end had closed.

    Filters mean failed jobs unless --state says otherwise."""
    with call.database() as database:
        asked = asked.with_default_states([State.FAILED])
        ids = _chosen(database, asked, "retry")
        if asked.is_filter:  # what another job has closed is reopened with that one
            ids = database.read("retryable", lambda tx: retryable(tx, ids))
        if not (yes or dry_run or _agreed("Retry", ids)):
            return ANSWER_IS_NO

        def act(tx: Transaction, some: Sequence[int]) -> list[int]:
            return retry_jobs(tx, some, from_scratch=from_scratch)

        changed = _act(database, asked, ids, act, is_open_again, dry_run, "retry")
    return _told(call, "would retry" if dry_run else "retried", ids, changed)


@click.command("skip")
@click.argument("job_id", type=parse_id, metavar="ID")
@click.option("--result", metavar="JSON", help="Its result, for those that wait for it.")
@click.option("--dry-run", is_flag=True, help="Only say what would be skipped.")
@common_options
@pass_call
def skip(call: Call, job_id: int, result: str | None, dry_run: bool) -> int:
    """Declare a failed job done; what its failure had closed is reopened. Of a container: all that failed in it."""
    text = None if result is None else to_json(from_json(result, where="--result"), where="--result")
    with call.database() as database:
        asked = Asked((job_id,), Selection(), None)
        changed = _act(
            *(database, asked, [job_id], lambda tx, ids: skip_jobs(tx, ids, text), is_skipped, dry_run, "skip")
        )
    return _told(call, "would skip" if dry_run else "skipped", [job_id], changed, "skips or reopens")


def _told(call: Call, verb: str, ids: Sequence[int], changed: Sequence[int], also: str = "reopens") -> int:
    if call.as_json:
        print_json(list(changed))
        return 0
    again = set(changed) & set(ids)
    reopened = set(changed) - again
    print_lines([f"{verb} {_named(again)}" + (f", which {also} {_named(reopened)}" if reopened else "")])
    return 0


def _chosen(database: Database, asked: Asked, verb: str) -> list[int]:
    if asked.is_empty:
        raise InvalidJob(
            f"{verb} which jobs? Name ids, or choose with --state, --type, --group, --parent, --key, --cause, --since"
        )
    return sorted(database.read("select", asked.matching))


def _agreed(verb: str, ids: Sequence[int]) -> bool:
    """Ask on a terminal when there is more than one. Raises `InvalidJob` where nobody can be asked."""
    if len(ids) < 2:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()):
        raise InvalidJob(f"this would {verb.lower()} {_named(ids)}: add --yes, or look first with --dry-run")
    if click.confirm(f"{verb} {_named(ids)}?", err=True):
        return True
    write("sqljobs: nothing was changed\n", to_stderr=True)
    return False


def _act(
    database: Database, asked: Asked, ids: Sequence[int], act: Act, happened: Happened, dry_run: bool, name: str
) -> list[int]:
    """Act on `ids`, or of filters on those that still match. Returns the ids that were (would be) changed."""

    def work(tx: Transaction) -> list[int]:
        wanted = sorted(set(ids) & set(asked.matching(tx))) if asked.is_filter else list(ids)
        return act(tx, wanted) if wanted else []

    for left in reversed(range(TRIES)):
        try:
            settled = SettledAct(work, happened)
            return database.transaction(name, settled.work, settle=settled.settle, keep=not dry_run)
        except Refused:
            # One that a filter meant may have ended between being read and being locked.
            if not asked.is_filter or not left:
                raise
    raise AssertionError("the last try returns or raises")


def _still_open(database: Database, ids: Sequence[int]) -> set[int]:
    states = database.read("states", lambda tx: read_states(tx, ids))
    return {job_id for job_id, state in states.items() if State(state) in OPEN}


def _named(ids: Collection[int]) -> str:
    listed = sorted(ids)
    if len(listed) == 1:
        return f"job {listed[0]}"
    shown = ", ".join(str(job_id) for job_id in listed[:IDS_SHOWN])
    more = f" and {len(listed) - IDS_SHOWN} more" if len(listed) > IDS_SHOWN else ""
    return f"{len(listed) or 'no'} jobs" + (f" ({shown}{more})" if listed else "")
