"""Take over at once what a dead supervisor of the same box held: kill what is left of its jobs, then end the attempts.

Other boxes and pid namespaces are left to the confirm window of reclaiming.py: their processes cannot be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqljobs.schema.finalize import finalize, settle_finalize
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.supervisors import mark_gone
from sqljobs.schema.takeovers import Held, Neighbour, held_with_processes, neighbours
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.liveness import boot_id, is_running
from sqljobs.supervisor.reaping import log_swept
from sqljobs.supervisor.registration import is_over
from sqljobs.supervisor.sightings import Process
from sqljobs.supervisor.sweeping import Sweeper

TAKEN_OVER = Outcome(
    Cause.LOST, error="lost: its supervisor is gone, with all processes of the attempt, and wrote no end", died=True
)


class Takeover:
    """Looks at its first run, and then each heartbeat; what it finds is seen to the end over the following turns."""

    def __init__(
        self,
        database: Database,
        supervisor_id: str,
        sweeper: Sweeper,
        heartbeat: float,
        backoff_of: Callable[[str], Backoff],
        log: Any,
    ) -> None:
        self._database = database
        self._supervisor_id = supervisor_id
        self._sweeper = sweeper
        self._heartbeat = heartbeat
        self._backoff_of = backoff_of
        self._log = log
        self._boot_id = boot_id()
        # Those whose rows are settled long ago may have left processes all the same: looked for once.
        self._marked: set[str] | None = None
        self._look_at = 0.0
        self._dead: dict[str, Neighbour] = {}
        self._has_looked = False
        self._left: set[Process] = set()

    @property
    def is_clear(self) -> bool:
        """Whether nothing lives here of what was seen of dead supervisors: what does may use their devices, and ours
        may be the same. False before the first look.

        Apart from the jobs of one that a job of which has started this very process: that is not looked for."""
        self._left = {process for process in self._left if is_running(*process)}
        return self._has_looked and not self._dead and not self._left

    def run(self, now: float) -> bool:
        """One step; returns whether anything was taken over. Raises `DatabaseUnavailable` or `CommitUnknown`."""
        if now >= self._look_at:
            self._find_dead(now)
            self._look_at = now + self._heartbeat
        changed = False
        for dead in list(self._dead.values()):
            swept = self._sweeper.take_hunted(dead.id, now)
            if swept is not None:
                del self._dead[dead.id]
                self._left.update(swept.left)
                log_swept(self._log, swept, of=dead.name)
                changed |= self._take_over(dead, all_gone=not swept.left)
        return changed

    def _find_dead(self, now: float) -> None:
        if self._marked is None:
            self._marked = self._sweeper.marked_supervisors()
        marked = self._marked

        def look(tx: Transaction) -> list[Neighbour]:
            return neighbours(tx, self._boot_id, besides=self._supervisor_id, marked=marked)

        for neighbour in self._database.read("neighbours", look):
            if neighbour.id in self._dead or not is_over(neighbour.id, neighbour.pid, neighbour.start_ticks):
                continue
            if self._sweeper.hunt(neighbour.id, neighbour.start_ticks, now):
                self._dead[neighbour.id] = neighbour
        self._marked = set()
        self._has_looked = True

    def _take_over(self, dead: Neighbour, *, all_gone: bool) -> bool:
        held = self._database.read("held", lambda tx: held_with_processes(tx, dead.owner))
        alive = [job.process for job in held if job.process is not None and is_running(*job.process)]
        self._left |= {Process(*process) for process in alive}
        if held and (alive or not all_gone):
            self._log.warning("jobs of a dead supervisor are left to their leases: they have processes", of=dead.name)
            return False
        taken = [job for job in held if self._end(job)]
        for job in taken:
            self._log.warning(
                "taken over from a dead supervisor", job_id=job.fence.job_id, attempt=job.fence.attempt, of=dead.name
            )
        if dead.is_listed:
            self._database.transaction("gone", lambda tx: mark_gone(tx, [dead.id]), settle=lambda _: None)
        return bool(taken)

    def _end(self, job: Held) -> bool:
        return self._database.transaction(
            "takeover",
            lambda tx: finalize(tx, job.fence, TAKEN_OVER, self._backoff_of(job.type)) is not None,
            settle=lambda tx: settle_finalize(tx, job.fence),
        )
