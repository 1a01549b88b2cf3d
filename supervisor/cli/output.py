"""What goes to stdout and stderr: JSON, lines, tables. Text of jobs is never trusted; a closed pipe ends quietly."""

from __future__ import annotations

import io
import json
import os
import re
import select
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from sqljobs.schema.renderings import one_line, safe_text

ANY_WIDTH = 4000  # not a terminal: whoever reads it can wrap for themselves
CELL_BYTES = 300
STATE_STYLES = {"done": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "leased": "cyan"}
# Characters that a terminal obeys or that turn the reading direction, beyond those that `one_line` escapes.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class OutputLost(Exception):
    """What a command had to say could not be written; what it did stays done."""


@dataclass(frozen=True)
class Column:
    """A table's column. `need`: on a narrow terminal those with the highest go first; 0 always stays."""

    title: str
    need: int = 0
    right: bool = False
    flexible: bool = False
    style: str = ""


def _unturned(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def clean(value: object, limit_bytes: int = CELL_BYTES) -> str:
    """`value` on one line, with nothing in it that a terminal would act on."""
    return _unturned(one_line(value, limit_bytes=limit_bytes))


def verbatim(line: str, limit_bytes: int) -> str:
    """The same of a line whose blanks count."""
    return _unturned(safe_text(line, limit_bytes=limit_bytes))


def state_text(state: str) -> Text:
    """A state in its colour."""
    return Text(clean(state), style=STATE_STYLES.get(state, ""))


def print_json(value: Any) -> None:
    """One JSON document on one line of stdout."""
    ascii_only = "utf" not in (getattr(sys.stdout, "encoding", None) or "").lower()
    text = json.dumps(value, ensure_ascii=ascii_only, separators=(", ", ": "))
    write(_unturned(text) + "\n")


def print_lines(lines: Iterable[object]) -> None:
    """Plain lines on stdout, each made safe."""
    write("".join(f"{clean(line, 1 << 20)}\n" for line in lines))


def print_rich(*parts: RenderableType) -> None:
    """Renderables on stdout; coloured on a terminal alone."""
    console = make_console()
    for part in parts:
        console.print(part, markup=False, highlight=False, emoji=False)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    write(text if console.is_terminal else "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def make_console() -> Console:
    """A console as wide and as coloured as stdout, that writes into memory: stdout may fail, and `write` knows how."""
    terminal = is_terminal(sys.stdout)
    return Console(file=io.StringIO(), force_terminal=terminal, width=None if terminal else ANY_WIDTH)


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]], indent: int = 0) -> Table:
    """A calm table of one line per row: empty columns are left out, on a narrow terminal the less needed ones too."""
    cells = [
        [cell if isinstance(cell, Text) else Text("" if cell is None else clean(cell)) for cell in row] for row in rows
    ]
    kept = [place for place in range(len(columns)) if any(row[place].plain for row in cells) or not columns[place].need]
    kept = _fitting(columns, cells, kept, make_console().width - indent)
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    for place in kept:
        column = columns[place]
        drawn.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.flexible,
            style=column.style or None,
        )
    for row in cells:
        for place in kept:
            row[place].no_wrap, row[place].overflow = True, "ellipsis"
        drawn.add_row(*(row[place] for place in kept))
    return drawn


def _fitting(columns: Sequence[Column], cells: Sequence[Sequence[Text]], kept: list[int], width: int) -> list[int]:
    def least(place: int) -> int:
        natural = max([len(columns[place].title), *(row[place].cell_len for row in cells)])
        return min(natural, 12) if columns[place].flexible else natural

    while sum(least(place) + 2 for place in kept) > width:
        dropped = max(kept, key=lambda place: columns[place].need)
        if not columns[dropped].need:
            break
        kept = [place for place in kept if place != dropped]
    return kept


def write(text: str, to_stderr: bool = False) -> bool:
    """Write and flush; when nobody reads any more, all later output goes nowhere and the work goes on: False.

    Raises `OutputLost` for a full disk and the like."""
    stream = sys.stderr if to_stderr else sys.stdout
    if stream is None:
        return False
    try:
        stream.write(_encodable(text, stream))
        stream.flush()
    except BrokenPipeError:
        close_quietly(stream)
        return False
    except OSError as error:
        close_quietly(stream)
        raise OutputLost(error.strerror) from error
    return True


def write_printed(text: str) -> bool:
    """What a job has printed, escaped already, its lines as they are; returns as `write`."""
    return write(_unturned(text))


def pause_while_read(seconds: float) -> bool:
    """Sleep; False as soon as stdout is a pipe, or a terminal, that nobody reads any more."""
    poller = select.poll()
    try:
        poller.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError, AttributeError):  # no file, closed, or none at all
        time.sleep(seconds)
        return True
    return not poller.poll(seconds * 1000)


def close_quietly(stream: TextIO) -> None:
    """Point the stream's descriptor at /dev/null: what Python still holds back must not raise at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at it."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
