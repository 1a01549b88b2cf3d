"""Waiting with a deadline."""

import itertools

import pytest

from tests.waiting import wait_until


def test_returns_the_first_truthy_value() -> None:
    values = iter([0, "", "found", "later"])
    assert wait_until(lambda: next(values), what="a word", interval=0.0) == "found"


def test_names_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.05 s for the moon; last seen: None"):
        wait_until(lambda: None, what="the moon", timeout=0.05)


def test_asks_once_more_after_the_deadline() -> None:
    asked = itertools.count()
    with pytest.raises(AssertionError):
        wait_until(lambda: next(asked) > 100, what="never", timeout=0.0)
    assert next(asked) == 1


def test_passes_on_what_the_condition_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, what="a number")
