"""What a transaction of ours has met so far, and whether it is worth another try: bounded, with jitter."""

from __future__ import annotations

import math
import random
import time

from sqlalchemy.exc import SQLAlchemyError

from sqljobs.schema.configure import configured_schema
from sqljobs.schema.dialects import Dialect, Trouble
from sqljobs.schema.errors import DatabaseUnavailable, tables_missing

RETRIES = 10
LONGEST_NAP_SECONDS = 1.0


class Failures:
    """Each kind is counted by itself: an outage uses up no retries of a deadlock.

    `reconnect_for`: seconds to look for a lost database, or to bear a busy one beyond its retries; one fresh connection
    is tried in any case, since a pooled one may have been dead for long. `busy_for`: seconds after which a busy one is
    given up before its retries are."""

    def __init__(self, dialect: Dialect, *, reconnect_for: float = 0.0, busy_for: float = math.inf) -> None:
        self._dialect = dialect
        now = time.monotonic()
        self._reconnect_until = now + reconnect_for
        self._busy_until = now + busy_for
        self._busy = 0
        self._connections = 0
        self._commits = 0

    def met(self, error: SQLAlchemyError) -> None:
        """Wait before the next try, or raise: `DatabaseUnavailable`, `NotInitialised`, or `error` itself where it is a
        fault in data or code."""
        if self._dialect.missing_table(error):
            raise tables_missing(configured_schema()) from None
        trouble = self._dialect.trouble(error)
        if trouble is Trouble.OTHER:
            raise error
        if trouble is Trouble.DISCONNECTED:
            self._connections += 1
            if self._connections > 1 and time.monotonic() >= self._reconnect_until:
                raise DatabaseUnavailable(
                    f"the database cannot be reached: {one_line(error)}; check its URL and that it runs"
                ) from error
            _nap(self._connections)
        else:
            self._busy += 1
            now = time.monotonic()
            if (self._busy > RETRIES and now >= self._reconnect_until) or now >= self._busy_until:
                raise DatabaseUnavailable(f"the database stays busy: {one_line(error)}") from error
            _nap(self._busy)

    def lost_commit(self) -> bool:
        """A COMMIT of unknown outcome: waits and returns True while it may be looked into once more."""
        self._commits += 1
        if self._commits > RETRIES:
            return False
        _nap(self._commits)
        return True


def _nap(failures: int) -> None:
    longest = 0.01 * 2 ** min(failures, 7)  # an outage of hours would overflow the float
    time.sleep(random.uniform(0.0, min(LONGEST_NAP_SECONDS, longest)))


def one_line(error: BaseException) -> str:
    """The driver's message on one line, without the statement and its parameters."""
    original = getattr(error, "orig", None) or error
    arguments: tuple[object, ...] = getattr(original, "args", ())
    if len(arguments) == 2 and isinstance(arguments[0], int):  # PyMySQL: (code, text)
        return " ".join(str(arguments[1]).split())
    return " ".join(str(original).split())
