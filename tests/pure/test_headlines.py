"""One line that says what went wrong, from the texts that attempts end with."""

from collections.abc import Callable
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from sqljobs.schema.headlines import headline
from sqljobs.schema.renderings import safe_traceback


def plain() -> NoReturn:
    raise ValueError("no such row")


def of_several_lines() -> NoReturn:
    raise RuntimeError("CUDA error: out of memory\nCompile with `DSA` to enable assertions.\n")


def with_a_note() -> NoReturn:
    error = ValueError("bad value")
    error.add_note("while reading row 7")
    raise error


def of_sqlalchemy() -> NoReturn:
    with create_engine("sqlite://").connect() as conn:
        conn.execute(text("SELECT 1 FROM nosuch"))
    raise AssertionError


def of_a_group() -> NoReturn:
    def one() -> Exception:
        try:
            plain()
        except ValueError as error:
            return error

    raise ExceptionGroup("two parts failed", [one(), KeyError("k")])


def with_a_cause() -> NoReturn:
    try:
        plain()
    except ValueError as error:
        raise LookupError("not found\nanywhere") from error


def that_begins_below() -> NoReturn:
    raise RuntimeError("\nthe text begins here\nand goes on")


def of_syntax() -> NoReturn:
    compile("a b", "handlers.py", "exec")
    raise AssertionError


def without_words() -> NoReturn:
    raise KeyError


def that_quotes_another() -> NoReturn:
    try:
        plain()
    except ValueError as error:
        quoted = safe_traceback(error)
    raise ChildProcessError(f"the worker failed:\n{quoted}")


def raises(_: object) -> NoReturn:
    raise SystemExit


# Its notes cannot be read, which the traceback module does not expect.
Unshowable = type("Unshowable", (Exception,), {"__str__": lambda _: "in vain", "__notes__": property(raises)})


def unshowable() -> NoReturn:
    raise Unshowable


@pytest.mark.parametrize(
    ("fails", "line"),
    [
        (plain, "ValueError: no such row"),
        (of_several_lines, "RuntimeError: CUDA error: out of memory"),
        (with_a_note, "ValueError: bad value"),
        (of_sqlalchemy, "sqlalchemy.exc.OperationalError: (sqlite3.OperationalError) no such table: nosuch"),
        (of_a_group, "ExceptionGroup: two parts failed (2 sub-exceptions)"),
        (with_a_cause, "LookupError: not found"),
        (that_begins_below, "RuntimeError: the text begins here"),
        (of_syntax, "SyntaxError: invalid syntax"),
        (without_words, "KeyError"),
        (that_quotes_another, "ChildProcessError: the worker failed:"),
        (unshowable, "Unshowable: in vain"),
    ],
)
def test_of_a_traceback(fails: Callable[[], NoReturn], line: str) -> None:
    with pytest.raises(BaseException) as raised:
        fails()
    assert headline(safe_traceback(raised.value)) == line


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (None, None),
        ("", None),
        ("killed by SIGKILL", "killed by SIGKILL"),
        ("no use\nand none tomorrow", "no use"),
        ("\n  indented\nmore", "indented"),
        (
            "Traceback (most recent call last):\n  File a\n... [99 bytes cut]\n line 3, in f\nValueError: x",
            "ValueError: x",
        ),
        ("Traceback (most recent call last):\n  File a", "File a"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("\u00e4" * 2000, "\u00e4" * 1000),
    ],
)
def test_of_other_texts(said: str | None, line: str | None) -> None:
    assert headline(said) == line


@given(st.text(), st.text())
def test_it_is_always_one_line_of_the_error(before: str, message: str) -> None:
    line = headline(f"{before}\n{message}")
    assert (line is None) == (not (before + message).strip())
    assert line is None or (line.splitlines() == [line] and line in before + "\n" + message)
