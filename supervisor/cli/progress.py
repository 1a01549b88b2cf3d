"""How far running jobs have come: bars on a terminal, plain text elsewhere; and a picture of it that lives."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sqljobs.schema.job_info import Progress
from sqljobs.schema.progress import SeenProgress
from sqljobs.supervisor.cli.list_jobs import progress_text
from sqljobs.supervisor.cli.output import Column, is_terminal, table

WIDTH = 24
COLUMNS = (
    Column("RUNNING", right=True),
    Column("TYPE", flexible=True),
    Column("PROGRESS"),
    Column("DONE", need=1, flexible=True, style="dim"),
)

Shown = Callable[[Sequence[SeenProgress], int], None]


def progress_rows(jobs: Sequence[SeenProgress], *, drawn: bool | None = None) -> list[list[object]]:
    """Rows for `COLUMNS`, with bars where stdout is a terminal."""
    drawn = is_terminal(sys.stdout) if drawn is None else drawn
    return [[job.id, job.type, bar(job.progress, drawn=drawn), progress_text(job.progress)] for job in jobs]


def bar(progress: Progress, *, drawn: bool = True) -> Text | None:
    """`━━━━━━──────  50%`, or the percentage alone; None where no total is known."""
    share = share_of(progress)
    if share is None:
        return None
    percent = f"{int(share * 100)}%"
    if not drawn:
        return Text(percent)
    full = round(share * WIDTH)
    mark, rest = ("━", "─") if "utf" in (getattr(sys.stdout, "encoding", None) or "").lower() else ("#", "-")
    style = "green" if share == 1 else "cyan"
    return Text.assemble((mark * full, style), (rest * (WIDTH - full), "dim"), f" {percent:>4}")


def share_of(progress: Progress) -> float | None:
    """From 0 to 1, whatever the handler says."""
    if progress.total is None or progress.total <= 0:
        return None
    return min(1.0, max(0.0, progress.done / progress.total))


@contextmanager
def live() -> Iterator[Shown | None]:
    """Shows progress on a terminal's stderr until the end of the block, and leaves nothing there; None elsewhere."""
    if not is_terminal(sys.stderr):
        yield None
        return
    console = Console(stderr=True)
    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as picture:

        def show(jobs: Sequence[SeenProgress], pending: int) -> None:
            word = "job has" if pending == 1 else "jobs have"
            parts = [table(COLUMNS, progress_rows(jobs, drawn=True))] if jobs else []
            picture.update(Group(*parts, Text(f"{pending:,} {word} not ended yet", style="dim")), refresh=True)

        yield show
