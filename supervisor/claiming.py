"""One claim round: read the ready set, rank it by fair share, lease exactly what was ranked, fork a child for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqljobs.schema.claim import Claimer, Lease, claim, settle_claim
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import Wanted, is_ready, will_be_ready
from sqljobs.schema.specs import Defaults
from sqljobs.schema.steps import step
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.admitting import Devices
from sqljobs.supervisor.attempts import Attempts
from sqljobs.supervisor.boot_clock import boottime
from sqljobs.supervisor.children import ForkFailed
from sqljobs.supervisor.choosing import choose
from sqljobs.supervisor.fair_share import Candidate, Held, group_weights
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.reaping import write_end
from sqljobs.supervisor.round import Sight, look
from sqljobs.supervisor.settings import Settings
from sqljobs.supervisor.takeover import Takeover
from sqljobs.supervisor.usage import UsageLedger
from sqljobs.worker_runtime.registry import JobType

AFTER_FAILED_FORK_SECONDS = 1.0
IDLE_HORIZON = timedelta(hours=1)


class Claiming:
    """Fills the free slots of one supervisor.

    `next_at`: when time alone makes room for a job that waits, such as the end of a window, on the boot-time clock."""

    def __init__(
        self,
        database: Database,
        claimer: Claimer,
        job_types: Mapping[str, JobType],
        attempts: Attempts,
        takeover: Takeover,
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
        self._takeover = takeover
        self._is_behind = False
        self.next_at: float | None = None

    def run(self, now: float, loop: Loop | None) -> bool:
        """Claim and start as many jobs as there are free slots; returns whether any, or whether it is worth looking
        again at once: another was faster. Errors of the database pass."""
        self.next_at = None
        free = self._settings.slots - len(self._attempts)
        if free <= 0 or now < self._again_at:
            return False
        if self._cannot_fork(now):
            return False
        leases = self._claim(free)
        if leases:
            self._attempts.close_sqlite_connections()
        not_started = {lease.job_id for lease in leases}
        try:
            for lease in leases:
                self._start(lease, now, loop)
                not_started.discard(lease.job_id)
        finally:
            for job_id in not_started - set(self._attempts):
                self._attempts.devices.give_back(job_id)
        return self._is_behind or bool(leases)

    def is_idle(self) -> bool:
        """Whether no child runs and there is nothing to do within the hour."""
        return not len(self._attempts) and not self._database.read("idle", self._has_work)

    def _has_work(self, tx: Transaction) -> bool:
        if will_be_ready(tx, self.wanted, IDLE_HORIZON):
            return True
        sight = look(tx, self.wanted, self._claimer.name, 1, self._job_types, self._devices())
        if sight.held_until is not None and sight.held_until <= tx.now + IDLE_HORIZON:
            return is_ready(tx, self.wanted)
        # What takes an operator, or another supervisor, to start is none of our work.
        refused = (sight.admitting.why_not(job.group, sight.uses[job.job_id]) for job in sight.jobs)
        return any(
            why is None or why.passes or (why.until is not None and why.until <= tx.now + IDLE_HORIZON)
            for why in refused
        )

    def _cannot_fork(self, now: float) -> bool:
        if threads := self._attempts.method.threads_in_the_way():
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
        devices = self._devices()
        # A retry may be ready before the process of the attempt before is gone: it is left for the next turn.
        count = free + len(self._attempts)
        sight = self._database.read(
            "scan", lambda tx: look(tx, self.wanted, self._claimer.name, count, self._job_types, devices)
        )
        chosen = self._choose(sight, free)
        soonest = sight.admitting.next_at()
        self.next_at = None if soonest is None else boottime() + (soonest - sight.now).total_seconds()
        self._is_behind = bool(chosen) and not self._is_behind  # but not again and again, where a row stays locked
        units = self._set_aside(sight, chosen)
        chosen = [job_id for job_id in chosen if job_id in units]
        if not chosen:
            return []
        leases: list[Lease] = []
        try:
            leases = self._database.transaction(
                "claim",
                lambda tx: claim(tx, self._claimer, chosen, self._options_of, devices=units),
                settle=lambda tx: settle_claim(tx, self._claimer, chosen),
            )
        finally:
            for job_id in units.keys() - {lease.job_id for lease in leases}:  # those without units have none to give
                self._attempts.devices.give_back(job_id)
        return leases

    def _options_of(self, job_type: str) -> Defaults:
        return self._job_types[job_type].defaults

    def _devices(self) -> Devices:
        pool = self._attempts.devices
        return Devices(
            total={name: len(units) for name, units in pool.rules.units.items()},
            free={name: pool.free(name) for name in pool.rules.units},
            is_clear=self._takeover.is_clear,
        )

    def _choose(self, sight: Sight, free: int) -> list[int]:
        aging, admitting = self._settings.aging, sight.admitting
        candidates = [
            Candidate(
                job.job_id, job.group, job.weight, job.priority, job.created_at, (job.group, job.type, job.uses_key)
            )
            for job in sight.jobs
            if job.job_id not in self._attempts and not self._attempts.devices.is_holder(job.job_id)
        ]
        closed = {
            job.lane
            for job in {job.lane: job for job in candidates}.values()
            if not admitting.would_admit(job.job_id, job.group, sight.uses[job.job_id])
        }
        candidates = [job for job in candidates if job.lane not in closed]
        usage = self._ledger.snapshot(boottime(), waiting=group_weights(candidates, aging, sight.weights))
        return choose(
            candidates,
            [Held(slot.group, slot.elapsed) for slot in sight.flying],
            usage,
            slots_free=free,
            aging=aging,
            weights=sight.weights,
            admit=lambda job: admitting.admit(job.job_id, job.group, sight.uses[job.job_id]),
        )

    def _set_aside(self, sight: Sight, chosen: list[int]) -> dict[int, Mapping[str, Sequence[str]]]:
        """Units of devices for each of `chosen`, none for most; who chose them has counted what is free."""
        units: dict[int, Mapping[str, Sequence[str]]] = {}
        for job_id in chosen:
            given = self._attempts.devices.take(job_id, sight.admitting.units(sight.uses[job_id]))
            if given is not None:
                units[job_id] = given
        return units

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
