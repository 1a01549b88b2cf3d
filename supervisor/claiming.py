"""One claim round: read the ready set, rank it by fair share, lease exactly what was ranked, fork a child for each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqljobs.schema.claim import Claimer, Lease, claim, settle_claim
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import HeldSlot, ReadyJob, Wanted, has_work, in_flight, scan
from sqljobs.schema.steps import step
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.attempts import Attempts, boottime
from sqljobs.supervisor.children import ForkFailed
from sqljobs.supervisor.fair_share import Candidate, Held, group_weights, rank
from sqljobs.supervisor.liveness import other_threads
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.reaping import write_end
from sqljobs.supervisor.settings import Settings
from sqljobs.supervisor.usage import UsageLedger
from sqljobs.worker_runtime.registry import JobType

AFTER_FAILED_FORK_SECONDS = 1.0
IDLE_HORIZON = timedelta(hours=1)


class Claiming:
    """Fills the free slots of one supervisor."""

    def __init__(
        self,
        database: Database,
        claimer: Claimer,
        job_types: Mapping[str, JobType],
        attempts: Attempts,
        ledger: UsageLedger,
        settings: Settings,
        log: Any,
    ) -> None:
        self.wanted = Wanted(tuple(job_types), settings.only_groups)
        self._database = database
        self._claimer = claimer
        self._job_types = job_types
        self._attempts = attempts
        self._ledger = ledger
        self._settings = settings
        self._log = log
        self._again_at = 0.0

    def run(self, now: float, loop: Loop | None) -> bool:
        """Claim and start as many jobs as there are free slots; returns whether any. Errors of the database pass."""
        free = self._settings.slots - len(self._attempts)
        if free <= 0 or now < self._again_at:
            return False
        if self._cannot_fork(now):
            return False
        leases = self._claim(free)
        if leases:
            self._attempts.close_sqlite_connections()
        for lease in leases:
            self._start(lease, now, loop)
        return bool(leases)

    def is_idle(self) -> bool:
        """Whether no child runs and there is nothing to do within the hour."""
        return not len(self._attempts) and not self._database.read(
            "idle", lambda tx: has_work(tx, self.wanted, IDLE_HORIZON)
        )

    def _cannot_fork(self, now: float) -> bool:
        if threads := other_threads():
            self._again_at = now + AFTER_FAILED_FORK_SECONDS
            self._log.error(
                "nothing is claimed while other threads run, whose locks a child could not have", threads=threads
            )
            return True
        path = self._attempts.shares_sqlite()
        if path is not None:
            self._again_at = now + AFTER_FAILED_FORK_SECONDS
            self._log.error(
                "nothing is claimed while this process has a connection open, which no child can share", file=path
            )
        return path is not None

    def _claim(self, free: int) -> list[Lease]:
        def look(tx: Transaction) -> tuple[list[ReadyJob], list[HeldSlot]]:
            # A retry may be ready before the process of the attempt before is gone: it is left for the next turn.
            heads = scan(tx, self.wanted, free + len(self._attempts))
            found = [job for job in heads if job.job_id not in self._attempts]
            return found, in_flight(tx) if found else []

        ready, flying = self._database.read("scan", look)
        chosen = self._rank(ready, flying, free)
        if not chosen:
            return []
        return self._database.transaction(
            "claim",
            lambda tx: claim(tx, self._claimer, chosen, lambda name: self._job_types[name].defaults),
            settle=lambda tx: settle_claim(tx, self._claimer, chosen),
        )

    def _rank(self, ready: list[ReadyJob], flying: list[HeldSlot], free: int) -> list[int]:
        aging = self._settings.aging
        candidates = [Candidate(job.job_id, job.group, job.weight, job.priority, job.created_at) for job in ready]
        usage = self._ledger.snapshot(boottime(), waiting=group_weights(candidates, aging))
        held = [Held(slot.group, slot.elapsed) for slot in flying]
        return rank(candidates, held, usage, slots_free=free, aging=aging)

    def _start(self, lease: Lease, now: float, loop: Loop | None) -> None:
        job_type = self._job_types[lease.type]
        try:
            step("attempt.fork")
            self._attempts.start(lease, job_type, loop)
            step("attempt.forked")
        except ForkFailed as error:
            self._again_at = now + AFTER_FAILED_FORK_SECONDS
            self._log.error("no child could be started", job_id=lease.job_id, error=str(error))
            write_end(self._database, lease.fence, Outcome(Cause.INTERRUPTED, error=str(error)), job_type.backoff)
            return
        self._ledger.start(lease.job_id, lease.group, boottime())
        self._log.info("attempt started", job_id=lease.job_id, attempt=lease.attempt, type=lease.type)
