"""`sqljobs show`: one job, its attempts and what it waits for; or a picture of the graph around it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sqljobs.schema.graph_read import JOBS_SHOWN, read_graph
from sqljobs.schema.headlines import headline
from sqljobs.schema.job_info import AttemptInfo, JobInfo
from sqljobs.schema.jobs_read import read_jobs
from sqljobs.schema.snapshots import read_snapshot
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.graph_dot import dot
from sqljobs.supervisor.cli.graph_mermaid import mermaid
from sqljobs.supervisor.cli.graph_picture import picture
from sqljobs.supervisor.cli.list_jobs import first_member_text, progress_text
from sqljobs.supervisor.cli.output import (
    STATE_STYLES,
    Column,
    clean,
    make_console,
    print_json,
    print_rich,
    state_text,
    table,
    verbatim,
    write,
    write_printed,
)
from sqljobs.supervisor.cli.selection import job_id as parse_id
from sqljobs.supervisor.cli.times import age, clock, duration, size

ATTEMPTS = (
    Column("#", right=True),
    Column("CAUSE"),
    Column("TOOK", need=1, right=True),
    Column("CPU", need=4, right=True),
    Column("MEMORY", need=5, right=True),
    Column("EXIT", need=2, right=True),
    Column("SUPERVISOR", need=6, flexible=True),
    Column("WHY", need=3, flexible=True, style="dim"),
)
UPSTREAMS = (Column("ID", right=True), Column("STATE"), Column("RUNS", need=1, style="dim"))
WAYS = {"ok": "after it is done", "any": "after any end", "not_ok": "after a bad end"}
VALUE_BYTES = 1000
TRACEBACK_LINES = 15
STACK_LINES = 60
LINE_BYTES = 300
JSON_FACTS = ("args", "result")
ROWS_SHOWN = 50
MOST_DRAWN = 1000


@click.command("show")
@click.argument("job_id", type=parse_id, metavar="ID")
@click.option("--log", is_flag=True, help="And the end of what its last attempt has printed.")
@click.option("--graph", is_flag=True, help="Draw all that is connected with the job.")
@click.option("--dot", "as_dot", is_flag=True, help="The same as Graphviz text.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="The same as a Mermaid flowchart.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_DRAWN),
    help=f"Draw at most so many jobs, the nearest. [default: {JOBS_SHOWN}]",
)
@common_options
@pass_call
def show(call: Call, job_id: int, log: bool, graph: bool, as_dot: bool, as_mermaid: bool, limit: int | None) -> int:
    """Show one job: its state and why, its attempts, what it waits for; or draw the graph that it is part of."""
    if graph + as_dot + as_mermaid + call.as_json > 1:
        raise click.UsageError("--graph, --dot, --mermaid and --json exclude each other: give one of them")
    if graph or as_dot or as_mermaid:
        _draw(call, job_id, JOBS_SHOWN if limit is None else limit, dot if as_dot else mermaid if as_mermaid else None)
        return 0
    if limit is not None:
        raise click.UsageError("--limit is for pictures: give --graph, --dot or --mermaid, too")
    with call.database() as database:
        info, now = database.read("show", lambda tx: (read_jobs(tx, [job_id])[0], tx.now))
    if call.as_json:
        print_json(info.as_json())
    else:
        print_rich(*_parts(info, now))
        if log:
            _print_log(info)
    return 0


def _print_log(info: JobInfo) -> None:
    """Line by line as it was printed: what is kept of it may be far longer than all else."""
    if not info.attempts:
        write("\nNo output: it has not run yet\n")
        return
    last = info.attempts[-1]
    if last.log_tail is None:
        hint = f"see `sqljobs logs {info.id}`" if last.ended_at is None else "none"
        write(f"\nOutput of attempt {last.attempt}: {hint}\n")
        return
    write(f"\nOutput of attempt {last.attempt}\n")
    write_printed("".join(f"  {line}\n" for line in last.log_tail.removesuffix("\n").split("\n")))


def _draw(call: Call, job_id: int, limit: int, export: Callable[..., str] | None) -> None:
    """Print the picture, or what `export` makes of the graph, in characters that stdout has."""
    with call.database() as database:
        graph, now = read_snapshot(database, "graph", lambda tx: (read_graph(tx, job_id, limit), tx.now))
    if export is not None:
        write(export(graph, ascii_only=not _can_say("é中😀")))
    else:
        print_rich(*picture(graph, now, make_console().width, unicode=_can_say("├─┄·○×↓⇣┃…")))


def _can_say(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parts(info: JobInfo, now: datetime) -> Iterator[RenderableType]:
    head = Text(f"Job {info.id}  ", style="bold")
    yield Text.assemble(head, (clean(info.type), "bold"), "  ", (info.state, STATE_STYLES.get(info.state, "")))
    if info.reason is not None:
        ends = f", ends {age(info.reason.until, now)}" if info.reason.code == "hold" and info.reason.until else ""
        yield Text(clean(f"{info.reason.text or info.reason.code}{ends}", VALUE_BYTES))
    elif (text := first_member_text(info)) is not None:
        yield Text(text)
    yield Text()
    yield _facts(info, now)
    if info.attempts:
        yield Text()
        yield table(ATTEMPTS, [_attempt_row(attempt, now) for attempt in info.attempts[-ROWS_SHOWN:]])
    if info.after:
        yield Text("\nWaits for" if info.ended_at is None else "\nWaited for", style="dim")
        rows = [
            [upstream.id, state_text(upstream.state or "pruned"), WAYS[upstream.kind]]
            for upstream in info.after[:ROWS_SHOWN]
        ]
        yield Padding(table(UPSTREAMS, rows, indent=2), (0, 0, 0, 2))
        if len(info.after) > ROWS_SHOWN:
            yield Text(f"  and {len(info.after) - ROWS_SHOWN} more: see --json", style="dim")
    yield from _traceback(info)
    yield from _stacks(info)


def _facts(info: JobInfo, now: datetime) -> Table:
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _named_facts(info, now):
        facts.add_row(name, Text((verbatim if name in JSON_FACTS else clean)(value, VALUE_BYTES)))
    return facts


def _named_facts(info: JobInfo, now: datetime) -> Iterator[tuple[str, str]]:
    yield "group", f"{info.group}, weight {info.weight}, priority {info.priority}"
    if info.key is not None:
        yield "key", info.key
    if info.parent is not None:
        yield "in container", str(info.parent)
    if info.progress is not None:
        yield "progress", progress_text(info.progress)
    if not info.container or info.attempt:  # a mere container never runs
        yield "attempts", f"{info.attempt} of at most {info.max_attempts}"
        yield "timeout", duration(info.timeout) if info.timeout else "none"
    if info.memory is not None:
        yield "memory", f"at most {size(info.memory)}"
    moments = {
        "created": info.created_at,
        "due": info.run_after if info.ended_at is None else None,
        "started": info.started_at,
        "ended": info.ended_at,
        "leased until": info.lease_expires,
    }
    for name, moment in moments.items():
        if moment is not None:
            yield name, f"{clock(moment)} ({age(moment, now)})"
    if info.lease_owner is not None:
        yield "leased by", info.lease_owner.rpartition("/")[0]
    for name, amounts in (("uses", info.uses), ("spent", info.spent)):
        if amounts:
            yield name, ", ".join(f"{limit} {amount:,}" for limit, amount in amounts.items())
    for name, value in zip(JSON_FACTS, (info.args, info.result), strict=True):
        if value is not None:
            yield name, json.dumps(value, ensure_ascii=False)


def _attempt_row(attempt: AttemptInfo, now: datetime) -> list[object]:
    begun = attempt.started_at or attempt.claimed_at
    took = ((attempt.ended_at or now) - begun).total_seconds()
    exit_code = None if attempt.exit_code is None else str(attempt.exit_code)
    return [
        attempt.attempt,
        attempt.cause or "running",
        duration(max(0.0, took)),
        duration(attempt.cpu_seconds),
        size(attempt.max_rss_bytes),
        attempt.signal or exit_code,
        attempt.supervisor,
        headline(attempt.error),
    ]


def _traceback(info: JobInfo) -> Iterator[RenderableType]:
    """The end of the last error that has more to say than one line."""
    last = next((attempt for attempt in reversed(info.attempts) if attempt.error), None)
    lines = [line.expandtabs(4) for line in (last.error or "").splitlines()] if last is not None else []
    if last is None or len(lines) < 2:
        return
    cut = len(lines) - TRACEBACK_LINES
    yield Text(
        f"\nError of attempt {last.attempt}" + (f" (its last {TRACEBACK_LINES} lines)" if cut > 0 else ""), style="dim"
    )
    for line in lines[-TRACEBACK_LINES:]:
        yield Text("  " + verbatim(line, LINE_BYTES))


def _stacks(info: JobInfo) -> Iterator[RenderableType]:
    """What the threads of the last attempt that was stopped were at."""
    last = next((attempt for attempt in reversed(info.attempts) if attempt.stack_dump), None)
    if last is None:
        return
    lines = (last.stack_dump or "").splitlines()
    more = f" (its last {STACK_LINES} lines)" if len(lines) > STACK_LINES else ""
    yield Text(f"\nStacks of attempt {last.attempt} when it was stopped{more}", style="dim")
    for line in lines[-STACK_LINES:]:
        yield Text("  " + verbatim(line, LINE_BYTES))
