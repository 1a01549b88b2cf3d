"""The supervisor: what each turn of the loop does, in which order; start, drain and stop. No SQL, no ranking."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine

from sqljobs.schema import edges, ready
from sqljobs.schema.claim import Claimer, Lease
from sqljobs.schema.errors import BadHandlers, DatabaseUnavailable, Error
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.supervisors import mark_gone, owner_of
from sqljobs.schema.transactions import CommitUnknown
from sqljobs.supervisor.attempts import Attempts, Death, boottime
from sqljobs.supervisor.children import ForkFailed
from sqljobs.supervisor.claiming import claim_round
from sqljobs.supervisor.handler_modules import Handlers, load_handlers
from sqljobs.supervisor.kill_ladder import Reason
from sqljobs.supervisor.liveness import other_threads
from sqljobs.supervisor.logs import supervisor_log
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.reaping import record_deaths, write_end
from sqljobs.supervisor.reclaiming import Reclaimer
from sqljobs.supervisor.registration import open_database, register_this_process
from sqljobs.supervisor.renewals import Renewals
from sqljobs.supervisor.settings import check_settings
from sqljobs.supervisor.usage import UsageLedger
from sqljobs.worker_runtime.post_fork import known_engines

IDLE_HORIZON = timedelta(hours=1)
OUTAGE_LOG_SECONDS = 30.0
RETRY_SECONDS = 1.0


class Supervisor:
    """Claims jobs, runs each in a child of its own, and sees it to its end.

    `url_or_engine`: the database. `handlers`: module name, file, module object, or a list of these. Keywords are the
    long flags of `sqljobs run`: slots, name, heartbeat, ttl, deadline, kill_grace, grace, poll, aging, on_lease_lost,
    until_idle, only_type, only_group. Main thread only. Raises `BadHandlers`, `InvalidJob`, `DatabaseUnavailable`,
    `NotInitialised`, `SchemaOutdated` at once."""

    def __init__(
        self,
        url_or_engine: str | Engine,
        handlers: Handlers | Iterable[Handlers],
        *,
        app_dir: str = ".",
        **options: Any,
    ) -> None:
        self._database = open_database(url_or_engine)
        self.settings = check_settings(backend=self._database.dialect.name, **options)
        self._job_types = load_handlers(handlers, app_dir=app_dir)
        if self.settings.only_types:
            self._job_types = {n: t for n, t in self._job_types.items() if n in self.settings.only_types}
        self._wanted = ready.Wanted(tuple(self._job_types), self.settings.only_groups)
        if threads := other_threads():
            raise BadHandlers(
                f"importing the handlers left threads running ({', '.join(threads)}): start them in a job"
            )
        self._attempts = Attempts(
            self._database, known_engines(), kill_grace=self.settings.kill_grace, deadline=self.settings.deadline
        )
        self._ledger = UsageLedger()
        self._deaths: list[Death] = []
        self._state = "running"
        self._kill_at: float | None = None
        self._interrupted_by_terminal = False
        self._loop: Loop | None = None
        self._claim_again_at = 0.0
        self._database_again_at = 0.0
        self._outage_logged_at: float | None = None
        self._next_reclaim_at = 0.0
        self._last_good_turn = boottime()
        self._endings: Counter[str] = Counter()
        self._registered = False

    # -- start and stop -------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Work until drained, stopped or, with `until_idle`, idle. Returns the exit code: 0, 130 after Ctrl-C, 4 when
        the last ends could not be written."""
        self._start()
        with Loop() as loop:
            self._loop = loop
            try:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
                    loop.catch(number)
                pause = self.settings.poll_fast
                while not self._is_finished():
                    busy = self._turn(loop.take_signals())
                    pause = self.settings.poll_fast if busy else min(pause * 2, self.settings.poll_slow)
                    if not self._is_finished():
                        loop.run_once(self._wait_for(pause))
            finally:
                self._loop = None
        return self._leave()

    def tick(self) -> bool:
        """One pass, without waiting, for embedding in a loop of one's own; returns whether there was anything to do."""
        self._start()
        return self._turn([])

    def stop(self) -> None:
        """Claim nothing more and end: as SIGTERM during `run` (from any thread), else here and now."""
        self._begin_to_drain(self.settings.grace)
        if self._loop is not None:
            self._loop.wake()
        elif self._registered:
            while not self._is_finished():
                self._turn([])
                if not self._is_finished():
                    threading.Event().wait(self._wait_for(self.settings.poll_fast))
            self._leave()

    def _start(self) -> None:
        if self._registered:
            return
        if threading.current_thread() is not threading.main_thread():
            raise Error("a supervisor runs in the main thread: its children would die with any other")
        settings = self.settings
        name, self._id = register_this_process(self._database, settings, sorted(self._job_types))
        self._claimer = Claimer(owner_of(name, self._id), name, settings.ttl)
        self._log = supervisor_log(name)
        self._renewals = Renewals(
            self._database, self._claimer, self._id, heartbeat=settings.heartbeat, deadline=settings.deadline
        )
        self._reclaimer = Reclaimer(self._database, self._claimer.owner, 2 * settings.heartbeat)
        self._registered = True
        self._log.info("supervisor started", slots=settings.slots, types=sorted(self._job_types))

    def _leave(self) -> int:
        self._registered = False
        self._attempts.close_sqlite_connections()
        summary = dict(sorted(self._endings.items()))
        try:
            self._database.transaction("leave", lambda tx: mark_gone(tx, [self._id]), settle=lambda _: None)
        except DatabaseUnavailable as error:
            self._log.error("supervisor ended, but could not say so", error=str(error))
            return 4
        self._log.info("supervisor ended", attempts=summary)
        return 130 if self._interrupted_by_terminal else 0

    def _begin_to_drain(self, grace: float | None) -> None:
        """First call: let children end, at most `grace` seconds (None: as long as they need). Later ones hurry."""
        if grace is not None:
            now = boottime()
            self._kill_at = now + grace if self._state == "running" or self._kill_at is None else now
        if self._state == "running":
            self._state = "draining"

    def _is_finished(self) -> bool:
        if self._state == "running" or len(self._attempts):
            return False
        # The last ends are worth waiting for, but not for ever: another supervisor reclaims what is left.
        return not self._deaths or boottime() - self._last_good_turn > self.settings.deadline

    # -- one turn -------------------------------------------------------------------------------------------------

    def _turn(self, signals: list[int]) -> bool:
        for number in signals:
            self._on_signal(number)
        now = boottime()
        if self._kill_at is not None and now >= self._kill_at and self._state != "stopping":
            self._state = "stopping"
            self._attempts.stop_all(Reason.SHUTDOWN)
        self._attempts.step_ladders()
        dead = self._attempts.reap(self._loop)
        for death in dead:
            self._ledger.end(death.lease.job_id, now)
        self._deaths += dead
        busy = bool(dead)
        if now >= self._database_again_at:
            busy |= self._with_database(now)
        return busy

    def _on_signal(self, number: int) -> None:
        self._log.info("signal", signal=signal.Signals(number).name)
        if number == signal.SIGUSR1:
            self._begin_to_drain(None)
            return
        self._interrupted_by_terminal |= number == signal.SIGINT
        self._begin_to_drain(self.settings.grace)

    def _with_database(self, now: float) -> bool:
        try:
            busy = self._record_deaths()
            self._renew(now)
            busy |= self._do_duties(now)
            busy |= self._claim_and_fork(now)
            if self.settings.until_idle and not busy:
                self._stop_when_idle()
        except (DatabaseUnavailable, CommitUnknown) as error:
            self._on_outage(now, error)
            return False
        if self._outage_logged_at is not None:
            self._log.warning("the database is back")
            self._outage_logged_at = None
        self._last_good_turn = now
        return busy

    def _on_outage(self, now: float, error: Exception) -> None:
        self._database_again_at = now + RETRY_SECONDS
        if self._outage_logged_at is None or now - self._outage_logged_at >= OUTAGE_LOG_SECONDS:
            self._outage_logged_at = now
            self._log.error("the database cannot be used; children go on", error=str(error))
        if self._renewals.is_overdue(now) and self.settings.on_lease_lost == "kill":
            self._attempts.stop_all(Reason.LEASE_LOST)

    def _record_deaths(self) -> bool:
        if not self._deaths:
            return False
        verdicts = record_deaths(self._database, self._deaths)
        for death in self._deaths:
            verdict = verdicts.get(death.lease.fence)
            cause = verdict.cause if verdict is not None and verdict.cause else "unknown"
            self._endings[cause] += 1
            log = self._log.info if cause in ("done", "snoozed", "cancelled") else self._log.warning
            log(
                "attempt ended",
                job_id=death.lease.job_id,
                attempt=death.lease.attempt,
                type=death.lease.type,
                cause=cause,
                state=verdict.state if verdict is not None else None,
                signal=death.evidence.signal,
                exit_code=death.evidence.exit_code,
            )
        self._deaths = []
        return True

    def _renew(self, now: float) -> None:
        if now < self._renewals.next_at:
            return
        renewal = self._renewals.run(now, self._attempts.alive(), self._state, self._ledger)
        for job_id in sorted(renewal.lost):
            self._log.warning("lease lost to another supervisor; its child is killed", job_id=job_id)
        self._attempts.stop(renewal.lost, Reason.LEASE_LOST, at_once=True)
        self._attempts.stop(renewal.cancelled_now, Reason.CANCEL, at_once=True)
        self._attempts.stop(renewal.cancelled, Reason.CANCEL)
        self._attempts.expect_exit(renewal.ended)

    def _do_duties(self, now: float) -> bool:
        """Settle edges, let due jobs become ready, take back what has lapsed; writes only where there is work."""
        database = self._database
        busy = False
        if database.read("settle", edges.any_unchecked):
            busy = database.transaction("settle", edges.settle_unchecked, settle=lambda _: 1) > 0
        due = database.read("due", ready.due)
        if due:
            busy |= database.transaction("due", lambda tx: ready.promote_due(tx, due), settle=lambda _: 1) > 0
        if now >= self._next_reclaim_at:
            self._next_reclaim_at = now + self.settings.heartbeat
            for fence in self._reclaimer.run(now, self._backoff_of):
                self._log.warning("reclaimed", job_id=fence.job_id, attempt=fence.attempt, owner=fence.owner)
                busy = True
        return busy

    def _backoff_of(self, job_type: str) -> Backoff:
        known = self._job_types.get(job_type)
        return known.backoff if known is not None else Backoff()

    def _claim_and_fork(self, now: float) -> bool:
        free = self.settings.slots - len(self._attempts)
        if self._state != "running" or free <= 0 or now < self._claim_again_at:
            return False
        leases = claim_round(
            self._database,
            self._claimer,
            self._wanted,
            self._job_types,
            self._ledger,
            free_slots=free,
            aging=self.settings.aging,
        )
        if leases:
            self._attempts.close_sqlite_connections()
        for lease in leases:
            self._fork(lease, now)
        return bool(leases)

    def _fork(self, lease: Lease, now: float) -> None:
        try:
            self._attempts.start(lease, self._job_types[lease.type], self._loop)
        except ForkFailed as error:
            self._claim_again_at = now + RETRY_SECONDS
            self._log.error("no child could be started", job_id=lease.job_id, error=str(error))
            outcome = Outcome(Cause.INTERRUPTED, error=str(error))
            write_end(self._database, lease.fence, outcome, self._job_types[lease.type].backoff)
            return
        self._ledger.start(lease.job_id, lease.group, boottime())
        self._log.info("attempt started", job_id=lease.job_id, attempt=lease.attempt, type=lease.type)

    def _stop_when_idle(self) -> None:
        if len(self._attempts) or self._deaths or self._state != "running":
            return
        if not self._database.read("idle", lambda tx: ready.has_work(tx, self._wanted, IDLE_HORIZON)):
            self._log.info("idle: nothing to do within the hour")
            self._state = "draining"

    def _wait_for(self, pause: float) -> float:
        """Seconds until something is due by time alone, at most `pause`."""
        now = boottime()
        moments = [now + pause, self._attempts.next_due(), self._kill_at if self._state == "draining" else None]
        if now >= self._database_again_at:
            moments.append(self._renewals.next_at)
        return max(0.0, min(moment for moment in moments if moment is not None) - now)
