"""What the command line prints of values that nobody may trust, and on narrow terminals."""

import io
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from sqljobs.supervisor.cli.output import ANY_WIDTH, Column, clean, print_rich, table
from sqljobs.supervisor.cli.times import age, duration, size

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@given(st.text())
def test_clean_text_is_harmless(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable() or not any(character < " " or "\x7f" <= character <= "\x9f" for character in cleaned)
    assert not set(cleaned) & set("\n\r\x1b\x9b\u202e\u2066\u200f")
    cleaned.encode()


def test_clean_keeps_markup_as_text() -> None:
    assert clean("[red]x[/red] :smile:") == "[red]x[/red] :smile:"


def test_a_table_shows_markup_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    print_rich(table([Column("TYPE")], [["[bold]a[/bold] :smile: \x1b[31m"]]))
    assert out.getvalue() == "TYPE\n[bold]a[/bold] :smile: \\x1b[31m\n"


COLUMNS = [Column("ID", right=True), Column("TYPE", flexible=True), Column("KEY", need=2), Column("WHY", need=1)]


def test_empty_columns_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    print_rich(table(COLUMNS, [[1, "a", None, "x"], [12, "b", "", ""]]))
    assert out.getvalue() == "ID  TYPE  WHY\n 1  a     x\n12  b\n"


def test_columns_fit_the_width() -> None:
    rows: list[list[object]] = [[1, "t" * 30, "k" * 10, "w" * 10]]
    shown = {
        indent: [str(column.header) for column in table(COLUMNS, rows, indent=ANY_WIDTH - width).columns]
        for indent, width in enumerate((80, 35, 25, 5))
    }
    assert shown == {0: ["ID", "TYPE", "KEY", "WHY"], 1: ["ID", "TYPE", "WHY"], 2: ["ID", "TYPE"], 3: ["ID", "TYPE"]}


def test_styled_cells_are_kept() -> None:
    drawn = table([Column("STATE")], [[Text("done", style="green")]])
    (cell,) = drawn.columns[0].cells
    assert isinstance(cell, Text)
    assert cell.style == "green"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.25, "0.2s"), (42, "42s"), (60, "1m"), (61, "1m 1s"), (3600, "1h"), (12_000, "3h 20m"), (90_000, "1d 1h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_ages() -> None:
    assert [age(NOW - timedelta(seconds=n), NOW) for n in (0, 5, 61, 7300)] == ["now", "5s ago", "1m ago", "2h ago"]
    assert age(NOW + timedelta(seconds=300), NOW) == "in 5m"
    assert age(None, NOW) == ""


@pytest.mark.parametrize(("count", "words"), [(None, ""), (999, "999 B"), (1500, "1.5 KB"), (25_000_000, "25 MB")])
def test_sizes(count: int | None, words: str) -> None:
    assert size(count) == words
