"""Duties that any supervisor does for all: late edges, what was left to do, jobs that fall due, lapsed leases, and
what no limit counts any more."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from sqljobs.schema import chores, late_edges, ready
from sqljobs.schema.glance import glance
from sqljobs.schema.leases import held_by
from sqljobs.schema.old_charges import counts_in_windows, forget_old_charges
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.ready import Wanted
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.reaping import write_end
from sqljobs.supervisor.reclaiming import Reclaimer

ORPHANED = Outcome(Cause.INTERRUPTED, error="claimed, but its child was never started: the claim's COMMIT seemed lost")

FORGET_SECONDS = 30.0


class Duties:
    """Writes only where a glance has shown work: an idle queue costs one read.

    `next_due`: when the first scheduled job falls due, on the boot-time clock, if that is ahead."""

    def __init__(
        self, database: Database, owner: str, heartbeat: float, backoff_of: Callable[[str], Backoff], log: Any
    ) -> None:
        self._database = database
        self._owner = owner
        self._reclaimer = Reclaimer(database, owner, heartbeat)
        self._heartbeat = heartbeat
        self._backoff_of = backoff_of
        self._log = log
        self._reclaim_at = self._forget_at = 0.0
        self.next_due: float | None = None

    def run(self, now: float, known: Collection[int], wanted: Wanted) -> tuple[bool, bool]:
        """One round; returns whether anything changed, and whether any of `wanted` may be ready to claim.

        `known`: jobs that have a child of ours, or had until just now. Raises `DatabaseUnavailable` or
        `CommitUnknown`."""
        seen = self._database.read("look", lambda tx: glance(tx, wanted))
        self.next_due = now + seen.due_in if seen.due_in is not None and seen.due_in > 0 else None
        # Repeating a round whose COMMIT is unknown is harmless: what is settled, or ready, is not found again.
        changed = False
        if seen.unchecked:
            changed |= self._check_edges()
        if seen.left:
            changed |= self._database.transaction("chores", chores.work_off, settle=lambda _: 1) > 0
        if seen.due_in is not None and seen.due_in <= 0:
            changed |= self._database.transaction("due", _promote, settle=lambda _: 1) > 0
        if now >= self._reclaim_at:
            self._reclaim_at = now + self._heartbeat
            changed |= self._reclaim()
            self._reclaim_at = min(self._reclaim_at, self._reclaimer.next_due)
            if now >= self._forget_at and self._database.read("windows", counts_in_windows):
                self._forget_at = now + FORGET_SECONDS
                self._database.transaction("forget", forget_old_charges, settle=lambda _: 0)
            changed |= self._release_orphans(known)
        return changed, changed or seen.ready

    def _check_edges(self) -> bool:
        count, ended = self._database.transaction("check", late_edges.check_edges, settle=lambda _: (1, []))
        for upstream in ended:
            self._settle(upstream)
        return count > 0

    def _settle(self, upstream: int) -> None:
        self._database.transaction("settle", lambda tx: late_edges.settle_ended(tx, upstream), settle=lambda _: False)

    def _release_orphans(self, known: Collection[int]) -> bool:
        """Give back what this very start holds without having a child for it: a claim whose COMMIT seemed lost."""
        held = self._database.read("orphans", lambda tx: held_by(tx, self._owner))
        orphans = [fence for job_id, fence in held.items() if job_id not in known]
        for fence in orphans:
            self._log.warning("claimed, but never started", job_id=fence.job_id, attempt=fence.attempt)
            write_end(self._database, fence, ORPHANED, Backoff())
        return bool(orphans)

    def _reclaim(self) -> bool:
        taken = self._reclaimer.run(self._backoff_of)
        for fence in taken:
            self._log.warning("reclaimed", job_id=fence.job_id, attempt=fence.attempt, owner=fence.owner)
        return bool(taken)


def _promote(tx: Transaction) -> int:
    return ready.promote_due(tx, ready.due(tx))
