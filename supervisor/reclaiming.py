"""Take back leases that have run out, after seeing for two heartbeats that nobody renews them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from sqljobs.schema.finalize import finalize, settle_finalize
from sqljobs.schema.leases import Lapsed, lapsed
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.transactions import Database

LOST = Outcome(Cause.LOST, error="lost: its supervisor renewed the lease no more, and no end was written", died=True)


class Reclaimer:
    """The confirm window: expiry by the database's clock is a hint, two heartbeats without a renewal on this host's
    boot-time clock are the proof: two of the owner's, or of our own if these are longer. A clock step or a long outage
    thus reclaims nothing.

    Source: Kubernetes' leader election (client-go), which judges by its own observation of change."""

    def __init__(self, database: Database, owner: str, heartbeat: float) -> None:
        self._database = database
        self._owner = owner
        self._heartbeat = heartbeat
        self._seen: dict[Fence, tuple[datetime, float]] = {}

    def run(self, now: float, backoff_of: Callable[[str], Backoff]) -> list[Fence]:
        """One look; returns the fences of the attempts that this call ended as `lost`."""
        found = self._database.read("lapsed", lambda tx: lapsed(tx, not_owner=self._owner))
        self._remember(found, now)
        silent = [lease for lease in found if now - self._seen[lease.fence][1] >= self._window(lease)]
        return [lease.fence for lease in silent if self._take(lease, backoff_of(lease.type))]

    def _window(self, lease: Lapsed) -> float:
        return 2 * max(self._heartbeat, lease.heartbeat)

    def _remember(self, found: Sequence[Lapsed], now: float) -> None:
        former = self._seen
        self._seen = {}
        for lease in found:
            heartbeat_at, since = former.get(lease.fence, (None, now))
            self._seen[lease.fence] = (lease.heartbeat_at, since if heartbeat_at == lease.heartbeat_at else now)

    def _take(self, lease: Lapsed, backoff: Backoff) -> bool:
        return self._database.transaction(
            "reclaim",
            lambda tx: finalize(tx, lease.fence, LOST, backoff, if_lapsed=True) is not None,
            settle=lambda tx: settle_finalize(tx, lease.fence),
        )
