"""A table of children that leaves none behind."""

import signal
from collections.abc import Iterator

import pytest

from sqljobs.supervisor.children import Children
from tests.processes.offspring import wait_for_ends


@pytest.fixture
def children() -> Iterator[Children[str]]:
    """An empty table; what lives in it after the test is killed and reaped."""
    table: Children[str] = Children()
    yield table
    for child in table:
        table.signal(child, signal.SIGKILL, group=True)
    wait_for_ends(table)
