"""`sqljobs hold` and `release`: keep jobs from being claimed, and let them be claimed again."""

from __future__ import annotations

from datetime import datetime

import click

from sqljobs.schema.holds import KINDS, Hold, take_away
from sqljobs.schema.holds import hold as put_hold
from sqljobs.schema.job_info import as_plain
from sqljobs.schema.transactions import NotCommitted, Transaction
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.output import print_json, print_lines
from sqljobs.supervisor.cli.times import age, clock

kind_argument = click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
name_argument = click.argument("name", required=False)
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
yes_option = click.option("--yes", is_flag=True, help="Nothing is asked: for scripts that give it to every command.")


@click.command("hold")
@kind_argument
@name_argument
@click.option("--reason", metavar="TEXT", help="Why, for those who wonder.")
@click.option("--until", metavar="WHEN", help="90s, 2h, 7d from now, or a time with offset (default: until released).")
@dry_run_option
@yes_option
@common_options
@pass_call
def hold(
    call: Call, kind: str, name: str | None, reason: str | None, until: str | None, dry_run: bool, yes: bool
) -> int:
    """Keep jobs from being claimed; running ones are not touched.

    KIND is job (NAME: its id), type, group, limit, supervisor, or all (no NAME). A held container holds all that is in
    it. What is held already gets this reason and end."""
    del yes

    def put(tx: Transaction) -> tuple[Hold, datetime]:
        return put_hold(tx, kind, name, reason=reason, until=until), tx.now

    with call.database() as database:
        # Holding twice is holding once, so a COMMIT of unknown outcome is settled by doing it again.
        done, now = database.transaction("hold", put, settle=put, keep=not dry_run)
    if call.as_json:
        print_json([as_plain(done.as_dict())])
    else:
        print_lines([f"{'would hold' if dry_run else 'held'} {_named(done)}{_end(done.until, now)}"])
    return 0


@click.command("release")
@kind_argument
@name_argument
@dry_run_option
@yes_option
@common_options
@pass_call
def release(call: Call, kind: str, name: str | None, dry_run: bool, yes: bool) -> int:
    """End a hold; `all` ends the hold of all jobs, not every hold. What is not held may be released all the same."""
    del yes
    found: list[Hold | None] = []

    def take(tx: Transaction) -> Hold | None:
        found.append(take_away(tx, kind, name))
        return found[-1]

    def again(tx: Transaction) -> Hold | type[NotCommitted] | None:
        # What the lost COMMIT has ended is not there any more; it was this call that ended it.
        return take(tx) or next((hold for hold in found if hold is not None), None)

    with call.database() as database:
        ended = database.transaction("release", take, settle=again, keep=not dry_run)
    if call.as_json:
        print_json([] if ended is None else [as_plain(ended.as_dict())])
    elif ended is None:
        what = "all jobs are" if kind == "all" else f"{kind} {name} is"
        print_lines([f"{what} not held: `sqljobs status` shows the holds there are"])
    else:
        print_lines([f"{'would release' if dry_run else 'released'} {_named(ended)}"])
    return 0


def _named(hold: Hold) -> str:
    return "all jobs" if hold.name is None else f"{hold.kind} {hold.name}"


def _end(until: datetime | None, now: datetime) -> str:
    if until is None:
        return ""
    if until <= now:
        return f" until {clock(until)}, which is past: nothing is held"
    return f" until {clock(until)} ({age(until, now)})"
