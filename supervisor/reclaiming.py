"""Take back leases that have run out, after seeing for two heartbeats that nobody renews them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import inf

from sqljobs.schema.finalize import finalize, settle_finalize
from sqljobs.schema.leases import Lapsed, lapsed
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.boot_clock import boottime

LOST = Outcome(Cause.LOST, error="lost: its supervisor renewed the lease no more, and no end was written", died=True)


class Reclaimer:
    """The confirm window: expiry by the database's clock is a hint, two heartbeats without a renewal on this host's
    boot-time clock are the proof: two of the owner's, or of our own if these are longer. A clock step or a long outage
    thus reclaims nothing.

    Silence counts from the end of one look to the beginning of the next, and at most a heartbeat between two looks: a
    host that was suspended, or a supervisor that was stopped amid a look, would otherwise take its own absence for the
    owner's.

    Source: Kubernetes' leader election (client-go), which judges by its own observation of change."""

    def __init__(self, database: Database, owner: str, heartbeat: float, clock: Callable[[], float] = boottime) -> None:
        self._database = database
        self._owner = owner
        self._heartbeat = heartbeat
        self._clock = clock
        self._looked_at = -inf
        self._silence: dict[Fence, tuple[datetime, float]] = {}
        self.next_due = inf
        """When the first lease seen to have run out may be taken, on the clock given."""

    def run(self, backoff_of: Callable[[str], Backoff]) -> list[Fence]:
        """One look; returns the fences of the attempts that this call ended as `lost`."""
        since, began = self._looked_at, self._clock()
        found = self._database.read("lapsed", lambda tx: lapsed(tx, not_owner=self._owner))
        self._looked_at = self._clock()
        left = self._remember(found, began - since)
        self.next_due = min((self._looked_at + seconds for seconds in left.values() if seconds > 0), default=inf)
        return [lease.fence for lease in found if left[lease.fence] <= 0 and self._take(lease, backoff_of(lease.type))]

    def _remember(self, found: Sequence[Lapsed], passed: float) -> dict[Fence, float]:
        """Count `passed` seconds of silence; returns for how many more each lease must be silent."""
        former, self._silence = self._silence, {}
        left: dict[Fence, float] = {}
        for lease in found:
            longest = max(self._heartbeat, lease.heartbeat)
            heartbeat_at, silent = former.get(lease.fence, (None, 0.0))
            silent = silent + min(passed, longest) if heartbeat_at == lease.heartbeat_at else 0.0
            self._silence[lease.fence] = (lease.heartbeat_at, silent)
            left[lease.fence] = 2 * longest - silent
        return left

    def _take(self, lease: Lapsed, backoff: Backoff) -> bool:
        return self._database.transaction(
            "reclaim",
            lambda tx: finalize(tx, lease.fence, LOST, backoff, if_lapsed=True) is not None,
            settle=lambda tx: settle_finalize(tx, lease.fence),
        )
