"""The database cannot be used: when to try again, and what to say of it at a bounded rate. Does no I/O but the log."""

from __future__ import annotations

from typing import Any

RETRY_SECONDS = 1.0
LOG_SECONDS = 30.0


class Outage:
    """One supervisor's view of its database. Times on the boot-time clock."""

    def __init__(self, log: Any, now: float, heartbeat: float) -> None:
        self._log = log
        # Not less often than it renews: others wait for two heartbeats only when the database is back.
        self._retry = min(RETRY_SECONDS, heartbeat)
        self._logged_at: float | None = None
        self.again_at = 0.0
        self.last_good = now

    def failed(self, now: float, error: Exception) -> None:
        """A pass failed; the next is not before `again_at`."""
        self.again_at = now + self._retry
        if self._logged_at is None or now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            self._log.error("the database cannot be used; trying again and again", error=str(error))

    def over(self, now: float) -> None:
        """A pass went well."""
        self.last_good = now
        if self._logged_at is not None:
            self._logged_at = None
            self._log.warning("the database is back")
