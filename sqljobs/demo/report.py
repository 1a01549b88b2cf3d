"""The demo's last page: tables of costs and findings, failures and shares. It only draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sqljobs.demo.summary import Cost, Mishap, Share, Summary

WIDTH_OF_FIGURES = 59
"""Columns that the table of costs needs beside the names."""

PAGE = 100
"""The widest that the top lists get."""


def print_report(console: Console, summary: Summary, colours: dict[str, str], program: str) -> None:
    """Print everything; what is worth remembering comes last."""
    print_costs(console, summary.costs, colours)
    if summary.found is not None:
        print_found(console, summary.found)
    print_mishaps(console, summary.mishaps)
    print_shares(console, summary.fair_share, colours, summary.slots)
    print_ending(console, summary, program)


def heading(console: Console, title: str, note: str = "") -> None:
    """A line that begins a section."""
    console.print()
    console.print(Text.assemble((title, "bold"), (f"  {note}" if note else "", "dim")))


def table_of(*columns: str) -> Table:
    """A quiet table; a column whose title begins with `>` is aligned to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", padding=(0, 1), collapse_padding=True)
    for title in columns:
        right = title.startswith(">")
        table.add_column(title.removeprefix(">"), justify="right" if right else "left", no_wrap=True)
    return table


def shorten(name: str, width: int) -> Text:
    """A name in at most `width` columns; figures are never cut."""
    text = Text(name, no_wrap=True)
    text.truncate(max(width, 12), overflow="ellipsis")
    return text


def print_costs(console: Console, costs: Sequence[Cost], colours: dict[str, str]) -> None:
    """One row a job, the costliest first, and their sum."""
    heading(console, "What each job cost", "all attempts together, the costliest first")
    room = console.width - WIDTH_OF_FIGURES
    table = table_of(">job", "part", "group", ">lines", ">CPU s", ">wall s", ">peak MB", ">tries")
    for cost in sorted(costs, key=lambda cost: (-cost.cpu_seconds, cost.id)):
        table.add_row(
            str(cost.id),
            shorten(cost.name, room),
            Text(cost.group, style=colours.get(cost.group, "")),
            "" if cost.lines is None else f"{cost.lines:,}",
            f"{cost.cpu_seconds:.2f}",
            f"{cost.seconds:.2f}",
            "" if cost.max_rss_bytes is None else f"{cost.max_rss_bytes / 1e6:.0f}",
            Text(str(cost.attempts), style="bold red" if cost.attempts > 1 else ""),
        )
    table.add_section()
    peak = max((cost.max_rss_bytes or 0 for cost in costs), default=0)
    table.add_row(
        "",
        f"{len(costs)} jobs",
        "",
        f"{sum(cost.lines or 0 for cost in costs):,}",
        f"{sum(cost.cpu_seconds for cost in costs):.2f}",
        f"{sum(cost.seconds for cost in costs):.2f}",
        f"{peak / 1e6:.0f}",
        str(sum(cost.attempts for cost in costs)),
        style="bold",
    )
    console.print(table)


def print_found(console: Console, found: dict[str, Any]) -> None:
    """The merged index: totals, and the top lists two by two."""
    totals = found["totals"]
    heading(console, "What was found", "the result of the merge")
    share = totals["documented"] / max(1, totals["definitions"])
    console.print(
        f"{totals['lines']:,} lines in {totals['files']:,} files: {totals['functions']:,} functions and "
        f"{totals['classes']:,} classes.\n"
        f"{share:.0%} of all definitions have a docstring; {totals['unreadable']:,} files do not parse.",
        highlight=False,
    )
    width = (min(console.width, PAGE) - 4) // 2
    largest = [(e["name"], f"{e['lines']:,}") for e in found["largest"]]
    best = [(e["name"], f"{e['share']:.0%}") for e in found["best_documented"]]
    longest = [(f"{e['function']}, {e['file']}:{e['line']}", f"{e['lines']:,}") for e in found["longest_functions"]]
    pair = Table.grid(padding=(0, 2))
    pair.add_row(
        top_list("largest parts", "lines", largest, width), top_list("best documented", "docstrings", best, width)
    )
    console.print(pair)
    console.print(top_list("longest functions", "lines", longest, 2 * width + 2))
    imported = ", ".join(f"{e['name']} {e['files']:,}" for e in found["most_imported"])
    console.print(Text.assemble((" most imported, by files  ", "dim"), imported))


def top_list(title: str, unit: str, rows: list[tuple[str, str]], width: int) -> Table:
    """Names and figures, `width` columns wide."""
    table = table_of(title, f">{unit}")
    table.width = width
    table.columns[0].ratio = 1
    for name, figure in rows:
        table.add_row(shorten(name, width - 14), figure)
    return table


def print_mishaps(console: Console, mishaps: Sequence[Mishap]) -> None:
    """Each failed attempt and what the queue did about it."""
    heading(console, "What failed, and what the queue did")
    for mishap in mishaps:
        console.print()
        console.print(Text.assemble(f"  job {mishap.id}, ", (mishap.name, "bold")))
        console.print(Text.assemble(("  ✗ ", "red"), f"attempt {mishap.attempt} {mishap.what}"))
        console.print(Text.assemble(("  ✓ " if mishap.mended else "    ", "green"), mishap.handled))


def print_shares(console: Console, shares: Sequence[Share], colours: dict[str, str], slots: int) -> None:
    """Promised and held share of slot time, a row a group."""
    heading(console, "Who got the slots", f"share of the {slots} slots while every group had work")
    table = table_of("group", ">weight", ">promised", ">held", ">jobs", ">slot seconds", ">ended after")
    for share in shares:
        table.add_row(
            Text(share.group, style=colours.get(share.group, "")),
            str(share.weight),
            f"{share.promised:.0%}",
            "-" if share.held is None else f"{share.held:.0%}",
            str(share.jobs),
            f"{share.slot_seconds:.1f}",
            f"{share.ended:.1f} s",
        )
    console.print(table)


def print_ending(console: Console, summary: Summary, program: str) -> None:
    """Where the picture is, and the commands to go on with."""
    done = sum(cost.state == "done" for cost in summary.costs)
    console.print()
    verdict = Text.assemble((f"{done} of {len(summary.costs)} jobs done", "bold"))
    console.print(verdict.append(f" in {summary.seconds:.1f} s. The picture of the run: {summary.picture}"))
    heading(console, "Look around", "the jobs are rows in the database")
    console.print()
    failed = next((mishap.id for mishap in summary.mishaps if mishap.cause == "signal"), summary.merge_id)
    commands = (
        ("status", "the queue as a whole"),
        ("list --type index_package --limit 10", "some of these jobs"),
        (f"show {failed}", "the job that was killed, with both attempts"),
        (f"show --json {summary.merge_id}", "the merge and all that it found"),
        ("demo --eject my-first-jobs", "the code of this demo, to start from"),
    )
    longest = max(len(command) for command, _ in commands)
    for command, meaning in commands:
        line = Text(f"  {program} {command:<{longest}}")
        console.print(line.append(f"  # {meaning}", style="dim"), soft_wrap=True, highlight=False)
