"""`sqljobs status`: the whole queue at a glance."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
from rich.console import RenderableType
from rich.text import Text

import sqljobs
from sqljobs.schema.job_info import Progress
from sqljobs.schema.progress import SeenProgress
from sqljobs.schema.status import read_status
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.limits import limits_table
from sqljobs.supervisor.cli.output import STATE_STYLES, Column, clean, print_json, print_rich, table
from sqljobs.supervisor.cli.progress import COLUMNS as PROGRESS
from sqljobs.supervisor.cli.progress import progress_rows
from sqljobs.supervisor.cli.times import clock, duration

GROUPS = (
    Column("GROUP", flexible=True),
    Column("READY", right=True),
    Column("IN FLIGHT", right=True),
    Column("WEIGHT", need=1, right=True),
)
HOLDS = (
    Column("HELD"),
    Column("NAME", flexible=True),
    Column("SINCE", need=2),
    Column("UNTIL", need=1),
    Column("REASON", need=1, flexible=True, style="dim"),
)
SUPERVISORS = (
    Column("SUPERVISOR", flexible=True),
    Column("STATE"),
    Column("SLOTS", right=True),
    Column("SEEN", need=1, right=True),
    Column("WAKE-UP", need=2),
    Column("HOST", need=3, flexible=True),
    Column("PID", need=4, right=True),
    Column("TYPES", need=2, flexible=True, style="dim"),
)


@click.command("status")
@common_options
@pass_call
def status(call: Call) -> int:
    """Show how many jobs are in which state, the groups with work, progress, limits, holds and supervisors."""
    with call.database() as database:
        found: dict[str, Any] = {"version": sqljobs.__version__, **database.read("status", read_status)}
    if call.as_json:
        print_json(found)
    else:
        print_rich(*_parts(found))
    return 0


def _parts(found: dict[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = [
        Text(
            f"sqljobs {found['version']}, tables of version {clean(found['schema_version'])} on {found['database']}",
            style="dim",
        ),
        _states(found["states"]),
    ]
    if found["oldest_ready_seconds"] is not None:
        parts.append(Text(f"The oldest ready job has waited for {duration(found['oldest_ready_seconds'])}."))
    if found["groups"]:
        rows = [[group["group"], group["ready"], group["in_flight"], group["weight"]] for group in found["groups"]]
        parts += [Text(), table(GROUPS, rows)]
    if found["progress"]:
        seen = [SeenProgress(job["id"], job["type"], Progress(**job["progress"])) for job in found["progress"]]
        parts += [Text(), table(PROGRESS, progress_rows(seen))]
    if found["limits"]:
        parts += [Text(), limits_table(found["limits"])]
    if found["holds"]:
        parts += [Text(), table(HOLDS, [_hold(hold) for hold in found["holds"]])]
    parts.append(Text())
    if found["supervisors"]:
        parts.append(table(SUPERVISORS, [_supervisor(row) for row in found["supervisors"]]))
    else:
        parts.append(Text("No supervisor has run here yet: start one with `sqljobs run --handlers FILE`."))
    return parts


def _states(states: dict[str, int]) -> Text:
    shown = [
        Text.assemble((f"{count:,} ", "bold"), (name, STATE_STYLES.get(name, "")))
        for name, count in states.items()
        if count
    ]
    return Text(", ").join(shown) if shown else Text("no jobs")


def _hold(hold: dict[str, Any]) -> list[object]:
    since, until = (moment and clock(datetime.fromisoformat(moment)) for moment in (hold["since"], hold["until"]))
    return [hold["kind"], hold["name"], since, until, hold["reason"]]


def _supervisor(row: dict[str, Any]) -> list[object]:
    seen = f"{duration(row['heartbeat_age_seconds'])} ago"
    slots = f"{row['children']}/{row['slots']}"
    types = ", ".join(row["types"] or [])
    return [row["name"], row["state"], slots, seen, row["wakeup"], row["host"], row["pid"], types]
