"""Chores that any supervisor does for all: settle edges, let due jobs become ready, take back lapsed leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqljobs.schema import edges, ready
from sqljobs.schema.outcomes import Backoff
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.reclaiming import Reclaimer


class Duties:
    """Looks first, by index, and writes only where there is work: an idle queue costs reads alone."""

    def __init__(
        self, database: Database, owner: str, heartbeat: float, backoff_of: Callable[[str], Backoff], log: Any
    ) -> None:
        self._database = database
        self._reclaimer = Reclaimer(database, owner, 2 * heartbeat)
        self._heartbeat = heartbeat
        self._backoff_of = backoff_of
        self._log = log
        self._reclaim_at = 0.0

    def run(self, now: float) -> bool:
        """One round; returns whether anything changed. Raises `DatabaseUnavailable` or `CommitUnknown`."""
        unchecked, due = self._database.read("look", lambda tx: (edges.any_unchecked(tx), ready.due(tx)))
        # Repeating a round whose COMMIT is unknown is harmless: what is settled, or ready, is not found again.
        changed = False
        if unchecked:
            changed |= self._database.transaction("settle", edges.settle_unchecked, settle=lambda _: 1) > 0
        if due:
            changed |= self._database.transaction("due", lambda tx: ready.promote_due(tx, due), settle=lambda _: 1) > 0
        if now >= self._reclaim_at:
            self._reclaim_at = now + self._heartbeat
            changed |= self._reclaim(now)
        return changed

    def _reclaim(self, now: float) -> bool:
        taken = self._reclaimer.run(now, self._backoff_of)
        for fence in taken:
            self._log.warning("reclaimed", job_id=fence.job_id, attempt=fence.attempt, owner=fence.owner)
        return bool(taken)
