"""The supervisor: what each turn of the loop does, in which order; start, drain and stop. No SQL, no ranking."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Engine

from sqljobs.schema.claim import Claimer
from sqljobs.schema.errors import DatabaseUnavailable
from sqljobs.schema.outcomes import Backoff
from sqljobs.schema.rehearsal import rehearse
from sqljobs.schema.supervisors import mark_gone, owner_of
from sqljobs.schema.transactions import CommitUnknown
from sqljobs.supervisor.attempts import Attempts
from sqljobs.supervisor.boot_clock import boottime
from sqljobs.supervisor.claiming import Claiming
from sqljobs.supervisor.duties import Duties
from sqljobs.supervisor.handler_modules import Handlers, located
from sqljobs.supervisor.in_charge import in_charge, refuse_shared
from sqljobs.supervisor.kill_ladder import Reason
from sqljobs.supervisor.listening import Listening
from sqljobs.supervisor.liveness import SHORTAGES
from sqljobs.supervisor.logs import supervisor_log
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.outage import Outage
from sqljobs.supervisor.reaping import log_ends, log_stopping, record_deaths
from sqljobs.supervisor.registration import backend_of, open_database, register_this_process
from sqljobs.supervisor.renewals import Renewals
from sqljobs.supervisor.running import Death
from sqljobs.supervisor.settings import check_settings
from sqljobs.supervisor.shutdown import Shutdown
from sqljobs.supervisor.stand_in import StandIn
from sqljobs.supervisor.start_methods import start_method
from sqljobs.supervisor.sweeping import Sweeper
from sqljobs.supervisor.takeover import Takeover
from sqljobs.supervisor.usage import UsageLedger
from sqljobs.supervisor.wakeups import Wakeups


class Supervisor:
    """Claims jobs, runs each in a child of its own, and sees it to its end.

    `url_or_engine`: the database. `handlers`: module name, file, module object, or a list of these. Keywords are the
    long flags of `sqljobs run`: slots, name, heartbeat, ttl, deadline, kill_grace, grace, poll, aging, on_lease_lost,
    until_idle, only_type, only_group, device, device_env (text or mapping), start_method, preload. Main thread only.
    Raises `BadHandlers`, `InvalidJob`, `DatabaseUnavailable`, `NotInitialised`, `SchemaOutdated` at once."""

    def __init__(
        self,
        url_or_engine: str | Engine,
        handlers: Handlers | Iterable[Handlers],
        *,
        app_dir: str = ".",
        **options: Any,
    ) -> None:
        self._engine_is_users = isinstance(url_or_engine, Engine)
        self.settings = check_settings(backend=backend_of(url_or_engine), **options)
        self._database = open_database(url_or_engine, answer_seconds=self.settings.answer_seconds)
        handlers = located(handlers)
        method = start_method(url_or_engine, handlers, app_dir, self.settings)
        self._stand_in = StandIn(method, url_or_engine, handlers, app_dir, options)
        self._job_types = method.job_types
        self._sweeper = Sweeper()
        self._attempts = Attempts(self._database, method, self._sweeper, self.settings)
        self._ledger = UsageLedger()
        self._shutdown = Shutdown()
        self._deaths: list[Death] = []
        self.endings: Counter[str] = Counter()
        self._interrupted_by_terminal = False
        self._loop: Loop | None = None
        self._registered = False

    def run(self) -> int:
        """Work until drained, stopped or, with `until_idle`, idle. Returns the exit code: 0, 130 after Ctrl-C, 4 when
        the last ends could not be written.

        Where other threads are alive in this process a fork would copy their locks, but not them, and a child that
        needs such a lock would wait for ever: then a fresh process becomes the supervisor, with the same settings. This
        one waits for it, passes SIGTERM, SIGINT, SIGUSR1 and SIGHUP on, and takes it along when it dies. That is not
        needed with `start_method="spawn"`, and not possible with an Engine in place of a URL (`Error`)."""
        try:
            if self._stand_in.is_needed():
                with Loop() as self._loop:
                    return self._stand_in.run(self._database, self._loop, self._shutdown, self.endings)
            refuse_shared(self._attempts.shares_sqlite())
            with in_charge(self._attempts.outputs.look, self._sweeper) as self._loop:
                self._start()
                self._turn_until_finished(self._loop)
                return self._leave()  # still deaf to signals: it has an end
        finally:
            self._loop = None

    def _turn_until_finished(self, loop: Loop) -> None:
        pause = self.settings.poll_fast
        wakeups = Wakeups(self._database, self._listening, poll_fast=pause, clock=boottime)
        with contextlib.closing(self._listening):
            while not self._is_finished():
                busy = self._turn(loop.take_signals())
                pause = self.settings.poll_fast if busy else min(pause * 2, self.settings.poll_slow)
                if not self._is_finished():
                    can_start = not self._shutdown.begun and len(self._attempts) < self.settings.slots
                    wakeups.wait(loop, self._wait_for(pause), wanted=can_start)

    def tick(self) -> bool:
        """One pass, without waiting, for embedding in a loop of one's own; returns whether there was anything to do.

        The first one raises `Error` where other threads are alive (see `run`); while there are any later, nothing is
        claimed."""
        self._start()
        return self._turn([])

    def stop(self) -> None:
        """Claim nothing more and end: as SIGTERM during `run` (from any thread), else here and now."""
        self._shutdown.ask(boottime(), self.settings.grace)
        if self._loop is not None:
            self._loop.wake()
        elif self._registered:
            while not self._is_finished():
                self._turn([])
                if not self._is_finished():
                    threading.Event().wait(min(self._wait_for(self.settings.poll_fast), self.settings.poll_fast))
            self._leave()

    def _start(self) -> None:
        if self._registered:
            return
        self._stand_in.refuse_this_thread_and_others()
        settings, database = self.settings, self._database
        patient = database.patient(reconnect_for=settings.deadline)  # it was there a moment ago
        name, self._id = register_this_process(patient, settings, self._job_types)
        claimer = Claimer(owner_of(name, self._id), name, settings.ttl)
        rehearse(patient, claimer)
        self._log = supervisor_log(name)
        self._outage = Outage(self._log, boottime(), settings.heartbeat)
        self._listening = Listening(database, self._id, self._log, boottime)
        self._renewals = Renewals(database, claimer, self._id, self._listening, settings)
        self._duties = Duties(database, claimer.owner, settings.heartbeat, self._backoff_of, self._log)
        self._takeover = Takeover(database, self._id, self._sweeper, settings.heartbeat, self._backoff_of, self._log)
        own = (self._attempts, self._takeover, self._ledger, settings, self._log)
        self._claiming = Claiming(database, claimer, self._job_types, *own)
        self._registered = True
        self._log.info("supervisor started", slots=settings.slots, types=sorted(self._job_types))

    def _backoff_of(self, job_type: str) -> Backoff:
        return self._job_types[job_type].backoff if job_type in self._job_types else Backoff()

    def _is_finished(self) -> bool:
        if not self._shutdown.begun or len(self._attempts):
            return False
        # The last ends are worth waiting for, but not for ever: another supervisor reclaims what is left.
        return not self._deaths or boottime() - self._outage.last_good > self.settings.deadline

    def _leave(self) -> int:
        self._registered = False
        try:
            self._database.patient().transaction("leave", lambda tx: mark_gone(tx, [self._id]), settle=lambda _: None)
        except DatabaseUnavailable as error:
            self._log.error("supervisor ended, but could not say so", error=str(error))
            return 4
        finally:
            self._attempts.close_sqlite_connections()
            if not self._engine_is_users:
                self._database.engine.dispose()
        self._log.info("supervisor ended", attempts=dict(sorted(self.endings.items())))
        return 130 if self._interrupted_by_terminal else 0

    def _turn(self, signals: list[int]) -> bool:
        for number in signals:
            self._on_signal(number)
        now = boottime()
        if self._shutdown.must_kill(now):
            self._attempts.stop_all(Reason.SHUTDOWN)
        log_stopping(self._log, self._attempts.step_ladders())
        dead = self._attempts.reap(self._loop)
        for death in dead:
            self._ledger.end(death.lease.job_id, now)
        self._deaths += dead
        return self._with_database(now) if now >= self._outage.again_at else bool(dead)

    def _on_signal(self, number: int) -> None:
        self._log.info("signal", signal=signal.Signals(number).name, children=len(self._attempts))
        self._interrupted_by_terminal |= number == signal.SIGINT
        self._shutdown.ask(boottime(), None if number == signal.SIGUSR1 else self.settings.grace)

    def _with_database(self, now: float) -> bool:
        try:
            busy = self._record_deaths()
            self._renew(now)
            busy |= self._takeover.run(now)
            changed, some_ready = self._duties.run(now, self._attempts, self._claiming.wanted)
            busy |= changed
            if not self._shutdown.begun:
                if some_ready:
                    busy |= self._claiming.run(now, self._loop)
                if self.settings.until_idle and not busy and self._claiming.is_idle():
                    self._log.info("idle: nothing to do within the hour")
                    self._shutdown.ask(boottime(), None)
        except (DatabaseUnavailable, CommitUnknown, OSError) as error:
            if isinstance(error, OSError) and error.errno not in SHORTAGES:
                raise
            self._outage.failed(now, error)
            if self._renewals.is_overdue(now) and self.settings.on_lease_lost == "kill":
                self._attempts.stop_all(Reason.LEASE_LOST)
            return False
        self._outage.over(now)
        if self._loop is not None:
            self._listening.attend()
        return busy

    def _record_deaths(self) -> bool:
        if not self._deaths:
            return False
        self.endings.update(log_ends(self._log, self._deaths, record_deaths(self._database, self._deaths)))
        self._deaths = []
        return True

    def _renew(self, now: float) -> None:
        if now < self._renewals.next_at and not self._listening.wants_heartbeat:
            return
        renewal = self._renewals.run(now, self._attempts.alive(), self._shutdown.state, self._ledger)
        for job_id in sorted(renewal.lost):
            self._log.warning("lease lost to another supervisor; its child is killed", job_id=job_id)
        self._attempts.stop(renewal.lost, Reason.LEASE_LOST, at_once=True)
        self._attempts.stop(renewal.cancelled_now, Reason.CANCEL, at_once=True)
        self._attempts.stop(renewal.cancelled, Reason.CANCEL)
        self._attempts.expect_exit(renewal.ended)
        if self._renewals.drain_requested and not self._shutdown.begun:
            self._log.info("drain requested")
            self._shutdown.ask(now, None)

    def _wait_for(self, pause: float) -> float:
        """Seconds until something is due by time alone, at most `pause`."""
        now = boottime()
        moments = [now + pause, self._attempts.next_due(), self._shutdown.next_due()]
        if now < self._outage.again_at:
            moments.append(self._outage.again_at)
        else:
            moments += [
                self._renewals.next_at,
                self._duties.next_due,
                self._listening.next_due(),
                self._claiming.next_at,
            ]
        return max(0.0, min(moment for moment in moments if moment is not None) - now)
