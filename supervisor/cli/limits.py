"""`sqljobs limit` and `group`: caps and weights, set and seen."""

from __future__ import annotations

from typing import Any

import click

from sqljobs.schema import values
from sqljobs.schema.errors import Refused
from sqljobs.schema.group_settings import list_groups, set_group
from sqljobs.schema.limit_rules import Limit
from sqljobs.schema.limit_settings import delete_limit, set_limit, stored_limits
from sqljobs.schema.limits_list import limit_line, list_limits
from sqljobs.schema.renderings import shown
from sqljobs.schema.transactions import Transaction
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.output import Column, print_json, print_lines, print_rich, table
from sqljobs.supervisor.cli.times import duration

LIMITS = (
    Column("LIMIT", flexible=True),
    Column("KIND", need=2),
    Column("GROUP", need=1, flexible=True),
    Column("USED", right=True),
    Column("AMOUNT", right=True),
    Column("PER", need=1, right=True),
    Column("LEFT", need=2, right=True),
    Column("HELD BY", need=3, flexible=True, style="dim"),
)
GROUPS = (Column("GROUP", flexible=True), Column("WEIGHT", right=True))
HOLDERS_NAMED = 5


@click.group("limit")
def limit() -> None:
    """Cap what jobs use: set, list or delete limits, at any time."""


@limit.command("set")
@click.argument("name")
@click.option("--resource", metavar="N", help="So much may be held by jobs in flight.")
@click.option("--rate", metavar="N", help="So much may begin in any window of --per.")
@click.option("--budget", metavar="N", help="So much may be had in all, or in each window of --per.")
@click.option("--per", metavar="DURATION", help="The window: 10s, 1h; of a budget also day or month (UTC).")
@click.option("--each", metavar="group", help="Every group counts for itself.")
@click.option("--group", metavar="NAME", help="With --each group: this group's own amount.")
@common_options
@pass_call
def set_(call: Call, /, name: str, group: str | None, **given: Any) -> int:
    """Make a limit, or replace what it says; 0 closes it. Its kind stays as it is."""

    def act(tx: Transaction) -> Limit:
        return set_limit(tx, name, group=group, **given)

    with call.database() as database:
        # Setting twice is setting once, so a COMMIT of unknown outcome is settled by doing it again.
        done = database.transaction("limit", act, settle=act)
    line = limit_line(done)
    if call.as_json:
        print_json([line])
    else:
        print_lines([_told(line)])
    return 0


@limit.command("list")
@common_options
@pass_call
def list_(call: Call) -> int:
    """List limits: what there is, what is used, and which jobs hold some."""
    with call.database() as database:
        lines = database.read("limits", list_limits)
    if call.as_json:
        print_json(lines)
    elif lines:
        print_rich(limits_table(lines))
    else:
        print_lines(["no limits: make one with `sqljobs limit set NAME`"])
    return 0


@limit.command("delete")
@click.argument("name")
@click.option("--group", metavar="NAME", help="Only this group's own amount.")
@common_options
@pass_call
def delete(call: Call, name: str, group: str | None) -> int:
    """Delete a limit, with what was counted of it. Jobs that use it then wait until it is made again."""
    found: list[Limit] = []

    def act(tx: Transaction) -> list[Limit]:
        gone = delete_limit(tx, name, group)
        found.extend(row for row in gone if row not in found)
        if not found:  # else a lost COMMIT has done it, and this is the second look
            names = {row.name for row in stored_limits(tx)}
            raise Refused(_missing(name, group, names))
        return found

    with call.database() as database:
        database.transaction("limit", act, settle=act)
    if call.as_json:
        print_json([limit_line(row) for row in found])
    else:
        print_lines([f"deleted limit {name}" + (f" of group {group}" if group is not None else "")])
    return 0


def _missing(name: str, group: str | None, names: set[str]) -> str:
    if name in names:
        return f"group {shown(group)} has no amount of limit {shown(name)} of its own: `sqljobs limit list` shows them"
    return f"there is no limit {shown(name)}{values.nearest(name, names)}: `sqljobs limit list` shows those there are"


def limits_table(lines: list[dict[str, Any]]) -> Any:
    """The lines of `limit list` for people."""
    return table(LIMITS, [_row(line) for line in lines])


def _row(line: dict[str, Any]) -> list[object]:
    group = "each" if line["each"] and line["group"] is None else line["group"]
    held = [str(job_id) for job_id in line["holders"][:HOLDERS_NAMED]]
    held += ["..."] if len(line["holders"]) > HOLDERS_NAMED else []
    amounts = [_number(line[name]) for name in ("used", "amount")]
    return [line["name"], line["kind"], group, *amounts, _per(line["per"]), _number(line["left"]), ", ".join(held)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.6f}".rstrip("0")


def _per(per: float | str | None) -> str:
    return per if isinstance(per, str) else duration(per)


def _told(line: dict[str, Any]) -> str:
    per = f" per {_per(line['per'])}" if line["per"] is not None else ""
    whom = f" for group {line['group']}" if line["group"] else " for each group" if line["each"] else ""
    return f"limit {line['name']}: {line['kind']} of {_number(line['amount'])}{per}{whom}"


@click.group("group")
def group() -> None:
    """Give groups weights in the fair share, in place of those that their jobs bring along."""


@group.command("set")
@click.argument("name")
@click.option("--weight", type=int, required=True, metavar="N", help="Its share of slots, against the others' weights.")
@common_options
@pass_call
def set_weight(call: Call, name: str, weight: int) -> int:
    """Set the weight of a group, from now on."""

    def act(tx: Transaction) -> dict[str, Any]:
        return set_group(tx, name, weight=weight)

    with call.database() as database:
        done = database.transaction("group", act, settle=act)
    if call.as_json:
        print_json([done])
    else:
        print_lines([f"group {done['group']} has weight {done['weight']}"])
    return 0


@group.command("list")
@common_options
@pass_call
def list_weights(call: Call) -> int:
    """List the groups that were given a weight; all others have that of their first job."""
    with call.database() as database:
        lines = database.read("groups", list_groups)
    if call.as_json:
        print_json(lines)
    elif lines:
        print_rich(table(GROUPS, [[line["group"], line["weight"]] for line in lines]))
    else:
        print_lines(["no group was given a weight: set one with `sqljobs group set NAME --weight N`"])
    return 0
