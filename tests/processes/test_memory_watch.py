"""The pace of the looks at memory: what grows is seen in time, also where a look takes long."""

import os
import time
from collections.abc import Callable

import pytest

from sqljobs.supervisor import memory_watch
from sqljobs.supervisor.memory_watch import LONGEST_PAUSE, LOOK_SECONDS, Limited, MemoryWatch
from sqljobs.supervisor.sightings import Sighting, sightings
from sqljobs.worker_runtime.process_mark import Mark
from tests.waiting import wait_until


def pause_after(look: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> float:
    def slow() -> list[Sighting]:
        look()
        return sightings()

    monkeypatch.setattr(memory_watch, "sightings", slow)
    watch = MemoryWatch()
    assert watch.over(100.0, {1: Limited(os.getpid(), Mark(1, 1, "0" * 32), 1)})[1] > 2**20
    due = watch.next_due(wanted=True)
    assert due is not None
    return due - 100.0


def wait_for_a_turn() -> None:
    """As on a machine that has better things to do."""
    until = time.monotonic() + 0.5
    wait_until(lambda: time.monotonic() > until, what="half a second", interval=0.1)


def work_hard() -> None:
    until = time.thread_time() + 0.3
    while time.thread_time() < until:
        os.getpid()


def test_a_look_that_only_waits_is_not_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOOK_SECONDS <= pause_after(wait_for_a_turn, monkeypatch) < LONGEST_PAUSE


def test_no_pause_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pause_after(work_hard, monkeypatch) == LONGEST_PAUSE
