"""The demo while it runs: bars a group on a terminal, a line now and then elsewhere. It only draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sqljobs.demo.summary import MERGE
from sqljobs.demo.timeline import PALETTE

LINE_SECONDS = 2.0
"""Without a terminal: how often a line of progress is printed."""


@dataclass(frozen=True)
class JobNow:
    """One job at one moment."""

    id: int
    name: str
    group: str
    state: str
    attempt: int

    @property
    def runs(self) -> bool:
        """Whether a slot holds it."""
        return self.state in ("leased", "running")


def colours_of(weights: dict[str, int]) -> dict[str, str]:
    """The colour of each group, the same as in the picture."""
    order = sorted(weights, key=lambda group: (-weights[group], group))
    return {group: PALETTE[place % len(PALETTE)] for place, group in enumerate(order)}


class Progress:
    """Shows what `update` is given until the `with` block ends."""

    def __init__(self, console: Console, weights: dict[str, int]) -> None:
        self._console = console
        self._weights = weights
        self._colours = colours_of(weights)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next_line = LINE_SECONDS

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def update(self, jobs: Sequence[JobNow], seconds: float) -> None:
        """Draw this state of all jobs, `seconds` after the start."""
        if self._live:
            self._live.update(self.draw(jobs, seconds), refresh=True)
        elif seconds >= self._next_line:
            self._next_line = seconds + LINE_SECONDS
            done = Counter(job.group for job in jobs if job.state == "done")
            total = Counter(job.group for job in jobs)
            groups = ", ".join(f"{group} {done[group]}/{total[group]}" for group in self._weights)
            self._console.print(f"  {seconds:4.0f} s   done: {groups}", highlight=False)

    def say(self, line: Text) -> None:
        """Print a line that stays."""
        self._console.print(line, soft_wrap=True)

    def draw(self, jobs: Sequence[JobNow], seconds: float) -> RenderableType:
        """Bars for the groups, and the names of what runs."""
        grid = Table.grid(padding=(0, 2))
        for column in range(4):
            grid.add_column(justify="right" if column == 2 else "left", no_wrap=True)
        for group, weight in self._weights.items():
            mine = [job for job in jobs if job.group == group]
            done = sum(job.state == "done" for job in mine)
            running = sum(job.runs for job in mine)
            colour = self._colours[group]
            if group == MERGE:
                waits = sum(job.state != "done" for job in jobs) - 1
                note = Text(f"waits for {waits} jobs" if waits else "adds up the results", style="dim")
            else:
                note = Text("■ " * running, style=colour)
            grid.add_row(
                Text(f"  {group}" if group == MERGE else f"  {group}, weight {weight}", style=colour),
                ProgressBar(total=len(mine), completed=done, width=24, complete_style=colour),
                f"{done} of {len(mine)}",
                note,
            )
        names = " · ".join(job.name for job in jobs if job.runs)
        now = Text(f"  {seconds:.0f} s  ", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(grid, "", now.append(names))
