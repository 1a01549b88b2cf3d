"""Wait for jobs to end, by looking at their states; between looks no connection is held."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import Engine

from sqljobs.schema.durations import parse_duration
from sqljobs.schema.errors import DatabaseUnavailable, WaitTimeout
from sqljobs.schema.job_info import JobInfo
from sqljobs.schema.jobs_read import read_jobs, read_states
from sqljobs.schema.states import FINAL
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.schema.values import check_ids

T = TypeVar("T")
Watch = Callable[[Transaction, Sequence[int]], None]
SHORTEST, LONGEST = 0.05, 1.0
OUTAGE_SECONDS = 60.0


def wait(engine: Engine, *ids: int, timeout: float | str | timedelta | None = None) -> list[JobInfo]:
    """Wait until all of `ids` have ended, in transactions of its own; returns them in that order.

    `timeout`: seconds, `90s` or a timedelta; None waits for ever. A database that goes away meanwhile may come back
    within a minute. Raises `WaitTimeout`, `UnknownJob`, `DatabaseUnavailable`, and `TypeError` for anything but an
    Engine."""
    if not isinstance(engine, Engine):
        raise TypeError(f"wait needs a SQLAlchemy Engine, not {type(engine).__name__}: it opens connections of its own")
    database = Database.of(engine)
    wanted = check_ids(ids)
    seconds = None if timeout is None else parse_duration(timeout, what="timeout")
    wait_for_end(database, wanted, seconds)
    return PatientLook(database)(lambda tx: read_jobs(tx, wanted))


def wait_for_end(database: Database, ids: Sequence[int], timeout: float | None, watch: Watch | None = None) -> None:
    """The same, without reading the jobs. Raises `WaitTimeout` after `timeout` seconds.

    `watch` is called with each look, and reads what it wants of those that have not ended."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pending = list(dict.fromkeys(ids))
    pause = SHORTEST
    look = PatientLook(database, deadline)
    while pending:
        states = look(lambda tx, left=pending: read_states(tx, left))  # type: ignore[misc]
        still = [job_id for job_id in pending if states[job_id] not in FINAL]
        pause = SHORTEST if len(still) < len(pending) else min(LONGEST, pause * 1.5)
        pending = still
        if pending and watch is not None:
            look(lambda tx, left=pending: watch(tx, left))  # type: ignore[misc]
        if pending and deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"{len(pending)} of {len(ids)} jobs have not ended, job {pending[0]} among them")
            pause = min(pause, left)
        if pending:
            time.sleep(pause)


class PatientLook:
    """Reads again and again. Once the database has answered, it may stay away for a while."""

    def __init__(self, database: Database, until: float | None = None) -> None:
        self._database = database
        self._until = until
        self._answered_at: float | None = None

    def __call__(self, work: Callable[[Transaction], T]) -> T:
        while True:
            try:
                found = self._database.read("wait", work)
            except DatabaseUnavailable:
                now = time.monotonic()
                is_late = self._until is not None and now >= self._until
                if self._answered_at is None or now - self._answered_at > OUTAGE_SECONDS or is_late:
                    raise
                time.sleep(LONGEST)
            else:
                self._answered_at = time.monotonic()
                return found
