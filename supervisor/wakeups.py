"""Waiting between two looks at the queue, cut short by hints that it has changed. Looks at no job itself."""

from __future__ import annotations

from collections.abc import Callable

from sqljobs.schema.data_version import DataVersion
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.listening import Listening
from sqljobs.supervisor.loop import Loop

DATA_VERSION_SECONDS = 0.2
APART_SECONDS = 0.1


class Wakeups:
    """Hints are notifications of PostgreSQL, and commits of others to a SQLite file; elsewhere there are none.

    Turns that they cause are as far apart as polls at their fastest, or `APART_SECONDS`, however many hints come: after
    the first nothing is listened to until its turn. `clock`: the boot-time clock."""

    def __init__(
        self, database: Database, listening: Listening, *, poll_fast: float, clock: Callable[[], float]
    ) -> None:
        self._data_version = DataVersion(database) if DataVersion.serves(database) else None
        self._listening = listening
        self._apart = min(poll_fast, APART_SECONDS)
        self._clock = clock
        self._is_hinted = False
        self._next_at = 0.0
        self._own_calls = 0

    def wait(self, loop: Loop, seconds: float, *, wanted: bool) -> None:
        """Run `loop` until it calls another than us, a hint has come and its turn is due, or the time is over.

        Without `wanted`, that is, when no job could be started, hints wait for the next turn, whatever its cause."""
        until = self._clock() + seconds
        self._listening.watch(loop, self._hear)
        while True:
            ends = min(until, self._next_at) if wanted and self._is_hinted else until
            looks = wanted and not self._is_hinted and self._data_version is not None
            rest = max(0.0, ends - self._clock())
            if self._run_once(loop, min(rest, DATA_VERSION_SECONDS) if looks else rest):
                break
            if looks and self._data_version is not None and self._data_version.changed():
                self._is_hinted = True
            now = self._clock()
            if wanted and self._is_hinted and now >= self._next_at:
                self._next_at = now + self._apart
                break
            if now >= until:
                break
        # The turn that follows looks at all there is.
        self._is_hinted = False

    def _run_once(self, loop: Loop, seconds: float) -> bool:
        """Whether another callback than ours was called."""
        self._own_calls = 0
        return loop.run_once(seconds) > self._own_calls

    def _hear(self) -> None:
        self._own_calls += 1
        if self._listening.take():
            self._is_hinted = True
            self._listening.unwatch()
