"""The heartbeat: renew the leases of living children, say that this supervisor lives, share what groups have used."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from sqljobs.schema.claim import Claimer
from sqljobs.schema.leases import Renewal, renew
from sqljobs.schema.supervisors import PublishedUsage, drain_requested, heartbeat, publish_usage, read_usage
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.schema.wake import echo
from sqljobs.supervisor.listening import Listening
from sqljobs.supervisor.settings import Settings
from sqljobs.supervisor.usage import UsageLedger


class Renewals:
    """When the next renewal is due, and how long ago the last good one began. Times on the boot-time clock.

    `drain_requested`: an operator wants this supervisor to end, as the last renewal has read."""

    def __init__(
        self,
        database: Database,
        claimer: Claimer,
        supervisor_id: str,
        listening: Listening,
        settings: Settings,
    ) -> None:
        self._database = database
        self._claimer = claimer
        self._supervisor_id = supervisor_id
        self._listening = listening
        self._heartbeat = settings.heartbeat
        self._deadline = settings.deadline
        self._last_good: float | None = None
        self.next_at = 0.0
        self.drain_requested = False

    def is_overdue(self, now: float) -> bool:
        """Whether the leases may not be trusted any more: counted from the start of the last good renewal."""
        return self._last_good is not None and now - self._last_good >= self._deadline

    def run(self, now: float, held: Mapping[int, int], state: str, ledger: UsageLedger) -> Renewal:
        """Renew `held` (job id -> attempt) and publish; raises `DatabaseUnavailable` or `CommitUnknown`."""
        token = self._listening.next_token()
        mode = self._listening.mode

        def work(tx: Transaction) -> tuple[Renewal, bool]:
            heartbeat(tx, self._supervisor_id, state, mode)
            if token is not None:
                echo(tx, token)
            renewal = renew(tx, self._claimer, held) if held else Renewal()
            self._share_usage(tx, now, ledger)
            return renewal, drain_requested(tx, self._supervisor_id)

        renewal, drain = self._database.transaction("renew", work)
        self._listening.sent(mode, token)
        self._last_good = now
        # Whoever asked for the drain sees at once that it has begun.
        self.next_at = now if drain and not self.drain_requested else now + self._heartbeat
        self.drain_requested = drain
        return renewal

    def _share_usage(self, tx: Transaction, now: float, ledger: UsageLedger) -> None:
        mine = [
            PublishedUsage(group, slot_seconds, starts, tx.now - timedelta(seconds=now - as_of))
            for group, slot_seconds, starts, as_of in ledger.rows(now)
        ]
        publish_usage(tx, self._supervisor_id, mine)
        others = read_usage(tx, but=self._supervisor_id)
        ledger.absorb(
            (row.group, row.slot_seconds, row.starts, now - (tx.now - row.as_of).total_seconds()) for row in others
        )
