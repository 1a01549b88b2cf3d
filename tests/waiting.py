"""Waiting for a condition with a deadline, instead of sleeping. Must not be used by product code."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, timeout: float = 30.0, what: str, interval: float = 0.02) -> T:
    """Call `condition` every `interval` seconds until its value is truthy, and return that value.

    `what` completes "waited N s for ..." in the AssertionError raised after `timeout` seconds.
    What `condition` raises is passed on at once. It is called once more after the deadline, so that
    a slow machine that overslept does not fail a condition that is true by now.
    """
    deadline = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= deadline
        value = condition()
        if value:
            return value
        if late:
            raise AssertionError(f"waited {timeout:g} s for {what}; last seen: {value!r}")
        time.sleep(interval)
