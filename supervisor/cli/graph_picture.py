"""A graph of jobs drawn for a terminal or a pipe: one line per job, states in words and colours. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.text import Text

from sqljobs.schema.graph import Edge
from sqljobs.schema.neighbourhood import Graph, GraphJob, Relation
from sqljobs.schema.states import State
from sqljobs.supervisor.cli.graph_forest import ASCII, UNICODE, Glyphs, Line, lines
from sqljobs.supervisor.cli.graph_words import (
    counted,
    left_out_here,
    name_of,
    neighbours_in_words,
    rest_in_words,
    state_in_words,
    waits_in_words,
)
from sqljobs.supervisor.cli.output import STATE_STYLES, clean

NARROW = 60
# Where there is little room.
SHORT = {
    State.BLOCKED: "block",
    State.SCHEDULED: "sched",
    State.READY: "ready",
    State.LEASED: "lease",
    State.RUNNING: "run",
    State.WAITING: "wait",
    State.DONE: "done",
    State.FAILED: "FAIL",
    State.CANCELLED: "canc",
}
LEAST_FOR_NAME = 20
REMARK_LINES = 3
REMARK_BYTES = 600
STANDINGS = {Edge.SATISFIED: "dim", Edge.OPEN: "bold", Edge.BROKEN: "red"}


def picture(graph: Graph, now: datetime, width: int, *, unicode: bool = True) -> Iterator[Text]:
    """The lines, none longer than `width` columns so long as these are at least 40."""
    paper = _Paper(graph, now, width, UNICODE if unicode else ASCII)
    yield from paper.head()
    yield Text()
    yield from paper.body()
    yield Text()
    yield from paper.foot()


@dataclass(frozen=True)
class _Paper:
    graph: Graph
    now: datetime
    width: int
    glyphs: Glyphs

    def head(self) -> Iterator[Text]:
        job = self.graph.jobs[self.graph.focus]
        title = (f"Job {clean(name_of(job))}  ", "bold")
        yield self._cut(Text.assemble(title, (job.state, STATE_STYLES.get(job.state, ""))), self.width)
        states = Counter(one.state for one in self.graph.jobs.values())
        for words, listed in (*neighbours_in_words(self.graph), ("shown", counted(states))):
            yield from self._wrapped(Text.assemble((f"{words:12}", "dim"), listed), self.width)

    def body(self) -> Iterator[Text]:
        states = {state: SHORT[state] if self.width < NARROW else state.value for state in State}
        margin = max(len(states[State(job.state)]) for job in self.graph.jobs.values()) + 3
        room = self.width - margin
        drawn = list(lines(self.graph, self.glyphs, max(0, room - LEAST_FOR_NAME)))
        names = [self._name(line, room) for line in drawn]
        longest = max(name.cell_len for line, name in zip(drawn, names, strict=True) if isinstance(line.item, GraphJob))
        column = margin + min(longest, room * 55 // 100)
        for line, name in zip(drawn, names, strict=True):
            front = Text(" " * margin)
            if isinstance(line.item, GraphJob):
                state = Text(states[State(line.item.state)], style=STATE_STYLES.get(line.item.state, ""))
                state.pad_right(margin - 2 - state.cell_len)
                front = Text.assemble(state, ("> " if line.item.id == self.graph.focus else "  ", "bold"))
            yield from self._with_remark(front + name, " " * margin + line.beside, self._remark(line), column)

    def foot(self) -> Iterator[Text]:
        rest = rest_in_words(self.graph)
        if rest is not None:
            yield from self._wrapped(Text(f"{self.glyphs.dots} {rest}", style="dim"), self.width)
        standings = {edge.standing for edge in self.graph.edges}
        waits, broken = f"{self.glyphs.waits} still waits", f"{self.glyphs.broken} cannot be met any more"
        meanings = {Edge.OPEN: waits, Edge.BROKEN: broken}
        legend = [f"> job {self.graph.focus}", *(words for edge, words in meanings.items() if edge in standings)]
        yield from self._wrapped(Text(", ".join(legend), style="dim"), self.width)

    def _name(self, line: Line, room: int) -> Text:
        lead = Text.assemble(
            (line.rails, "dim"), (line.connector, STANDINGS[line.edge.standing] if line.edge else "dim")
        )
        if isinstance(line.item, GraphJob):
            name = Text(clean(name_of(line.item)), style="bold" if line.item.id == self.graph.focus else "")
        else:
            name = Text(f"{self.glyphs.dots} and {left_out_here(line.item)}", style="dim")
        return self._cut(lead + name, room)

    def _remark(self, line: Line) -> Text:
        """What the job waits for and how it is; failures are red."""
        job = line.item
        if not isinstance(job, GraphJob):
            return Text()
        edges = [edge for edge in self.graph.edges if edge.job_id == job.id]
        parts = [Text(words) for words in waits_in_words(edges, line.edge)]
        parts += [Text(f"in container {job.parent}")] if line.adrift else []
        for left in self.graph.left_out:
            if left.job_id == job.id and left.is_crowd and left.relation is Relation.UPSTREAMS:
                parts.append(Text(f"and {left_out_here(left)}", style="dim"))
        style = "red" if job.state == State.FAILED else "dim"
        parts += [Text(clean(words, REMARK_BYTES), style) for words in state_in_words(job, self.graph, self.now)]
        return Text("; ").join(parts)

    def _with_remark(self, front: Text, beside: str, remark: Text, column: int) -> Iterator[Text]:
        """The remark to the right where there is room for it, in its column if possible, else below."""
        if not remark:
            yield front
            return
        for start in (max(column, front.cell_len) + 2, front.cell_len + 2):
            if start + remark.cell_len <= self.width:
                yield front + Text(" " * (start - front.cell_len)) + remark
                return
        yield front
        for part in self._wrapped(remark, self.width - len(beside) - 2):
            yield Text(f"{beside}  ", style="dim") + part

    def _wrapped(self, text: Text, width: int) -> Iterator[Text]:
        """`text` on a few lines; the last says if there was more."""
        parts = list(text.wrap(Console(width=width), width))
        for place, part in enumerate(parts[:REMARK_LINES], 1):
            part.rstrip()
            is_cut = place == REMARK_LINES < len(parts)
            yield self._cut(part + Text(f" {self.glyphs.dots}"), width) if is_cut else part

    def _cut(self, text: Text, width: int) -> Text:
        """`text` in `width` columns, ended by dots where it is cut."""
        if text.cell_len <= width:
            return text
        text.truncate(max(0, width - len(self.glyphs.dots)))
        text.rstrip()
        return text + Text(self.glyphs.dots)
