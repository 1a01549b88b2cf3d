"""The attempts that run in this supervisor's children: start them, stop them by the ladder, learn of their ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlalchemy import Engine

from sqljobs.schema.claim import Lease
from sqljobs.schema.engine import is_memory
from sqljobs.schema.evidence import Evidence
from sqljobs.schema.outcomes import Outcome
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.children import Child, Children, Ended
from sqljobs.supervisor.crashes import HANDLER_REACHED, cause_of_death, signal_name
from sqljobs.supervisor.kill_ladder import Action, Ladder, Reason, Stopping, next_action, next_due, stop
from sqljobs.supervisor.liveness import Liveness, holds_open, probe
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.settings import HANDLER_REACHED_WITHIN
from sqljobs.supervisor.sweeping import NOTHING_LEFT, Sweeper, Swept
from sqljobs.worker_runtime.child import FINALIZED, ChildStart, run_child
from sqljobs.worker_runtime.process_mark import Mark, mark_of
from sqljobs.worker_runtime.registry import JobType

LEAVE_SECONDS = 10.0


def boottime() -> float:
    """Seconds since boot, suspend included; no step of a wall clock moves it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class Running:
    """One attempt in a child. `ladder` says whether, and how far, it is being stopped."""

    lease: Lease
    job_type: JobType
    child: Child[int]
    ladder: Ladder = field(default_factory=Ladder)

    @property
    def overdue_at(self) -> float | None:
        """When its timeout is over, on the boot-time clock."""
        return self.child.forked_at + self.lease.timeout if self.lease.timeout else None


@dataclass(frozen=True)
class Death:
    """An attempt whose process is gone: the evidence, and what to write if the child has not written its end.

    `strays`: what became of the processes that it left behind."""

    lease: Lease
    job_type: JobType
    evidence: Evidence
    outcome: Outcome | None
    strays: Swept = NOTHING_LEFT


@dataclass(frozen=True)
class _Ending:
    """An attempt whose child is reaped, while what it left behind is killed."""

    mark: Mark
    death: Death


class Attempts:
    """All attempts of this supervisor, by job id. Main thread only."""

    def __init__(
        self,
        database: Database,
        engines: Iterable[Engine],
        sweeper: Sweeper,
        *,
        kill_grace: float,
        reconnect_for: float,
    ) -> None:
        self._database = database
        self._engines = tuple(engines)
        self._kill_grace = kill_grace
        self._reconnect_for = reconnect_for
        self._children: Children[int] = Children()
        self._running: dict[int, Running] = {}
        self._ending: dict[int, _Ending] = {}
        self._sweeper = sweeper

    def __len__(self) -> int:
        return len(self._running) + len(self._ending)

    def __iter__(self) -> Iterator[int]:
        """The jobs that have a process of ours."""
        return iter([*self._running, *self._ending])

    def __contains__(self, job_id: object) -> bool:
        """Whether the process tree of this job is not yet gone, its end written or not."""
        return job_id in self._running or job_id in self._ending

    def start(self, lease: Lease, job_type: JobType, loop: Loop | None) -> None:
        """Fork the child of `lease`. Raises `ForkFailed` or `ThreadsAlive`, with nothing left behind."""
        database = self._database.patient()
        given = ChildStart(database, job_type, os.getpid(), self._engines, reconnect_for=self._reconnect_for)

        def run(report_fd: int) -> NoReturn:
            run_child(lease, given, report_fd)

        child = self._children.spawn(lease.job_id, run)
        self._running[lease.job_id] = Running(lease, job_type, child)
        self._sweeper.watch(mark_of(lease.fence), child.pid, child.start_ticks)
        if loop is not None:
            loop.watch(child.pidfd, lambda: None)  # its end wakes the loop, which reaps at the next turn

    def close_sqlite_connections(self) -> None:
        """SQLite keeps its locks per process and in memory: no connection to a file may be open across a fork.

        Connections that are in use stay open; what an in-memory database holds would be lost."""
        for engine in (*self._engines, self._database.engine):
            if engine.dialect.name == "sqlite" and not is_memory(engine.url):
                engine.dispose()

    def shares_sqlite(self) -> str | None:
        """The database's file, if this process has it open although our own connections are closed.

        SQLite believes what it remembers of locks, and would in a child refuse, or corrupt, what it shares so."""
        self.close_sqlite_connections()
        url = self._database.engine.url
        if url.get_backend_name() != "sqlite" or not url.database:
            return None
        path = os.path.realpath(url.database)
        return path if holds_open(path) else None

    def stop(self, job_ids: Iterable[int], reason: Reason, *, at_once: bool = False) -> None:
        """Bring these attempts to their end by the ladder, `at_once` from its top: SIGKILL.

        Those that are being stopped already keep their first reason."""
        since = boottime() - (self._kill_grace if at_once else 0.0)
        for job_id in job_ids:
            if job_id in self._running:
                running = self._running[job_id]
                self._running[job_id] = replace(running, ladder=stop(running.ladder, reason, since))

    def expect_exit(self, job_ids: Iterable[int]) -> None:
        """The ends of these attempts are written: a process that stays all the same is stopped after a while."""
        for job_id in job_ids:
            if job_id in self._running:
                running = self._running[job_id]
                ladder = stop(running.ladder, Reason.ENDED, boottime() + LEAVE_SECONDS)
                self._running[job_id] = replace(running, ladder=ladder)

    def stop_all(self, reason: Reason) -> None:
        self.stop(list(self._running), reason)

    def step_ladders(self) -> list[Stopping]:
        """Begin to stop what is over its time, and send the signals that are due; returns whom and which."""
        now = boottime()
        due = [(job_id, action) for job_id in list(self._running) if (action := self._climb(job_id, now)) is not None]
        killed = [self._running[job_id] for job_id, action in due if action.signal == signal.SIGKILL]
        self._sweeper.condemn([mark_of(running.lease.fence) for running in killed], now)
        for job_id, action in due:
            self._children.signal(self._running[job_id].child, action.signal, group=True)
        return [
            Stopping(job_id, self._running[job_id].lease.attempt, self._running[job_id].ladder.reason, action.signal)
            for job_id, action in due
        ]

    def _climb(self, job_id: int, now: float) -> Action | None:
        running = self._running[job_id]
        ladder = running.ladder
        if running.overdue_at is not None and now >= running.overdue_at:
            ladder = stop(ladder, Reason.TIMEOUT, now)
        elif ladder.reason is None and now >= running.child.forked_at + HANDLER_REACHED_WITHIN:
            ladder = ladder if self._reached(running) else stop(ladder, Reason.NOT_REACHED, now)
        ladder, action = next_action(ladder, now, self._kill_grace)
        self._running[job_id] = replace(running, ladder=ladder)
        return action

    def _reached(self, running: Running) -> bool:
        return HANDLER_REACHED in self._children.reports(running.child)

    def next_due(self) -> float | None:
        """When `step_ladders` or `reap` has something to do by time alone, on the boot-time clock."""
        times = [self._sweeper.next_due()]
        for running in self._running.values():
            if running.ladder.reason is None:
                times.append(running.overdue_at)
                if boottime() < running.child.forked_at + HANDLER_REACHED_WITHIN:
                    times.append(running.child.forked_at + HANDLER_REACHED_WITHIN)
            else:
                times.append(next_due(running.ladder, self._kill_grace))
        return min((moment for moment in times if moment is not None), default=None)

    def reap(self, loop: Loop | None) -> list[Death]:
        """The attempts that are gone since the last call, with all that they had started."""
        now = boottime()
        for ended in self._children.reap():
            if loop is not None:
                loop.unwatch(ended.child.pidfd)
            running = self._running.pop(ended.child.key)
            mark = mark_of(running.lease.fence)
            self._ending[ended.child.key] = _Ending(mark, _death(running, ended))
            self._sweeper.bury(mark, now)
        self._sweeper.run(now)
        swept = {job_id: self._sweeper.take(ending.mark, now) for job_id, ending in self._ending.items()}
        return [
            replace(self._ending.pop(job_id).death, strays=strays)
            for job_id, strays in swept.items()
            if strays is not None
        ]

    def alive(self) -> dict[int, int]:
        """Job id -> attempt of the children that live: the same process as forked, and not a zombie."""
        return {
            job_id: running.lease.attempt
            for job_id, running in self._running.items()
            if probe(running.child.pid, running.child.start_ticks) in (Liveness.ALIVE, Liveness.STOPPED)
        }


def _death(running: Running, ended: Ended[int]) -> Death:
    evidence = Evidence(
        fence=running.lease.fence,
        pid=ended.child.pid,
        start_ticks=ended.child.start_ticks,
        exit_code=ended.exit_code,
        signal=None if ended.signal is None else signal_name(ended.signal),
        cpu_seconds=ended.cpu_seconds,
        max_rss_bytes=ended.max_rss_bytes,
    )
    if FINALIZED in ended.reports:
        return Death(running.lease, running.job_type, evidence, None)
    outcome = cause_of_death(
        exit_code=ended.exit_code, signal=ended.signal, reports=ended.reports, asked=running.ladder.reason
    )
    if running.job_type.is_fatal(outcome.cause):
        outcome = replace(outcome, fatal=True)
    return Death(running.lease, running.job_type, evidence, outcome)
