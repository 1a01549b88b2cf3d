"""The attempts that run in this supervisor's children: start them, stop them by the ladder, learn of their ends."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from sqljobs.schema.claim import Lease
from sqljobs.schema.engine import is_memory
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.boot_clock import boottime
from sqljobs.supervisor.children import Children
from sqljobs.supervisor.crashes import HANDLER_REACHED, text_of
from sqljobs.supervisor.devices import DevicePool
from sqljobs.supervisor.kill_ladder import Action, Reason, Taken, next_actions, next_due, stop
from sqljobs.supervisor.liveness import Liveness, catches, holds_open, is_running, probe
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.memory_watch import Limited, MemoryWatch
from sqljobs.supervisor.oom_kills import Oom, OomKills
from sqljobs.supervisor.output import Outputs
from sqljobs.supervisor.running import Death, Running, death_of, is_unexplained, open_lines, over_limit
from sqljobs.supervisor.settings import HANDLER_REACHED_WITHIN, Settings
from sqljobs.supervisor.start_methods import StartMethod
from sqljobs.supervisor.sweeping import Sweeper
from sqljobs.worker_runtime.child import ChildStart
from sqljobs.worker_runtime.process_mark import Mark, mark_of
from sqljobs.worker_runtime.registry import JobType
from sqljobs.worker_runtime.stack_dump import DUMP_SIGNAL
from sqljobs.worker_runtime.stop_request import ENDS

LEAVE_SECONDS = 10.0


@dataclass(frozen=True)
class _Ending:
    """An attempt whose child is reaped, while what it left behind is killed."""

    mark: Mark
    death: Death


class Attempts:
    """All attempts of this supervisor, by job id. Main thread only.

    `devices`: the units that jobs have; whoever takes some for a job that is not started gives them back. `outputs`:
    what they print, to be looked at often."""

    def __init__(self, database: Database, method: StartMethod, sweeper: Sweeper, settings: Settings) -> None:
        self._database = database
        self.method = method
        self._kill_grace, self._preloaded = settings.kill_grace, settings.preload
        self._reconnect_for = settings.reconnect_for
        self._children: Children[int] = Children()
        self._running: dict[int, Running] = {}
        self._ending: dict[int, _Ending] = {}
        self._sweeper = sweeper
        self.outputs = Outputs()
        self._memory = MemoryWatch()
        self._oom_kills = OomKills()
        self.devices = DevicePool(settings.devices)
        self._in_doubt: dict[int, list[Mark]] = {}

    def __len__(self) -> int:
        return len(self._running) + len(self._ending)

    def __iter__(self) -> Iterator[int]:
        """The jobs that have a process of ours."""
        return iter([*self._running, *self._ending])

    def __contains__(self, job_id: object) -> bool:
        """Whether the process tree of this job is not yet gone, its end written or not."""
        return job_id in self._running or job_id in self._ending

    def start(self, lease: Lease, job_type: JobType, loop: Loop | None) -> None:
        """Start the child of `lease`, which has its units of `devices`. Raises `ForkFailed` or `ThreadsAlive`, with
        nothing left behind."""
        with ExitStack() as undo:
            undo.callback(self.devices.give_back, lease.job_id)
            undo.callback(self.outputs.close, lease.job_id)
            request, dump = open_lines(undo, for_a_fork=self.method.forks)
            given = ChildStart(
                self._database.patient(),
                job_type,
                os.getpid(),
                self.method.engines,
                self._reconnect_for,
                request,
                dump,
                self.devices.rules.environment(lease.devices),
                self.outputs.open(lease.job_id),
            )
            child = self.method.start(self._children, lease, given)
            undo.pop_all()
        self._running[lease.job_id] = Running(lease, job_type, child, request, dump)
        self._sweeper.watch(mark_of(lease.fence), child.pid, child.start_ticks)
        if loop is not None:
            loop.watch(child.pidfd, lambda: None)  # its end wakes the loop, which reaps at the next turn

    def close_sqlite_connections(self) -> None:
        """SQLite keeps its locks per process and in memory: no connection to a file may be open across a fork.

        Connections that are in use stay open; what an in-memory database holds would be lost."""
        for engine in (*self.method.engines, self._database.engine):
            if engine.dialect.name == "sqlite" and not is_memory(engine.url):
                engine.dispose()

    def shares_sqlite(self) -> str | None:
        """The database's file, if this process has it open although our own connections are closed.

        SQLite believes what it remembers of locks, and would in a child refuse, or corrupt, what it shares so."""
        self.close_sqlite_connections()
        url = self._database.engine.url
        if url.get_backend_name() != "sqlite" or not url.database or not self.method.forks:
            return None
        path = os.path.realpath(url.database)
        return path if holds_open(path) else None

    def stop(self, job_ids: Iterable[int], reason: Reason, *, at_once: bool = False) -> None:
        """Bring these attempts to their end by the ladder, `at_once` from its top: SIGKILL.

        Those that are being stopped already keep their first reason."""
        now = boottime()
        for job_id in job_ids:
            if job_id in self._running:
                running = self._running[job_id]
                self._running[job_id] = replace(running, ladder=stop(running.ladder, reason, now, at_once=at_once))

    def expect_exit(self, job_ids: Iterable[int]) -> None:
        """The ends of these attempts are written: a process that stays all the same is stopped after a while."""
        for job_id in job_ids:
            if job_id in self._running:
                running = self._running[job_id]
                ladder = stop(running.ladder, Reason.ENDED, boottime() + LEAVE_SECONDS)
                self._running[job_id] = replace(running, ladder=ladder)

    def stop_all(self, reason: Reason) -> None:
        self.stop(list(self._running), reason)

    def step_ladders(self) -> list[Taken]:
        """Begin to stop what is over its time or its memory, and do what is due; returns to whom what was done."""
        now = boottime()
        for job_id, held in self._memory.over(now, self._limited()).items():
            running = self._running[job_id]
            ladder = stop(running.ladder, Reason.MEMORY, now)
            self._running[job_id] = replace(running, ladder=ladder, held=held, why=over_limit(held, running.lease))
        due = [(job_id, action) for job_id in list(self._running) for action in self._climb(job_id, now)]
        killed = [self._running[job_id] for job_id, action in due if action is Action.KILL]
        self._sweeper.condemn([running.mark for running in killed], now)
        return [self._take(self._running[job_id], action) for job_id, action in due]

    def _limited(self) -> dict[int, Limited]:
        return {
            job_id: Limited(running.child.pid, running.mark, running.lease.memory, self._sweeper.family(running.mark))
            for job_id, running in self._running.items()
            if running.lease.memory is not None and running.ladder.reason is None
        }

    def _take(self, running: Running, action: Action) -> Taken:
        child, reason = running.child, running.ladder.reason
        assert reason is not None
        if action is Action.ASK and reason.value in ENDS:
            running.request.ask(reason.value, running.why or text_of(reason))
        elif action is Action.DUMP and catches(child.pid, DUMP_SIGNAL):
            self._children.signal(child, DUMP_SIGNAL, group=False)
        elif action.signal is not None:
            self._children.signal(child, action.signal, group=True)
        return Taken(running.lease.job_id, running.lease.attempt, reason, action)

    def _climb(self, job_id: int, now: float) -> tuple[Action, ...]:
        running = self._running[job_id]
        ladder = running.ladder
        is_overdue = running.overdue_at is not None and now >= running.overdue_at
        if ladder.reason is None and (is_overdue or now >= running.child.forked_at + HANDLER_REACHED_WITHIN):
            if not self._reached(running) and not (is_overdue and self._preloaded):  # an import may take its time
                ladder = stop(ladder, Reason.NOT_REACHED, now)
            elif is_overdue:
                ladder = stop(ladder, Reason.TIMEOUT, now)
        ladder, actions = next_actions(ladder, now, self._kill_grace)
        self._running[job_id] = replace(running, ladder=ladder)
        return actions

    def _reached(self, running: Running) -> bool:
        return HANDLER_REACHED in self._children.reports(running.child)

    def next_due(self) -> float | None:
        """When `step_ladders` or `reap` has something to do by time alone, on the boot-time clock."""
        times = [self._sweeper.next_due(), self._memory.next_due(wanted=bool(self._limited()))]
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
        self.outputs.look()
        self._oom_kills.look(now)
        dead = self._children.reap()
        killed = [ended for ended in dead if is_unexplained(self._running[ended.child.key], ended)]
        oom = self._oom_kills.explain(len(killed))
        for ended in dead:
            if loop is not None:
                loop.unwatch(ended.child.pidfd)
            running = self._running.pop(ended.child.key)
            mark = running.mark
            self._ending[ended.child.key] = _Ending(mark, death_of(running, ended, oom if ended in killed else Oom.NO))
            self._sweeper.bury(mark, now)
        self._sweeper.run(now)
        swept = {job_id: self._sweeper.take(ending.mark, now) for job_id, ending in self._ending.items()}
        deaths = [
            self._ending.pop(job_id).death.with_rest(strays, self.outputs.take(job_id))
            for job_id, strays in swept.items()
            if strays is not None
        ]
        self._free_devices(deaths)
        return deaths

    def _free_devices(self, deaths: Iterable[Death]) -> None:
        """What cannot be killed, or may as well be of an attempt that goes on, may use the units yet."""
        for death in deaths:
            job_id, mark = death.lease.job_id, mark_of(death.lease.fence)
            if any(is_running(*process) for process in self._sweeper.suspects(mark)):
                self._in_doubt.setdefault(job_id, []).append(mark)
            elif job_id not in self._in_doubt:
                self.devices.give_back(job_id)
        for job_id, marks in list(self._in_doubt.items()):
            last = [process for mark in marks for process in self._sweeper.suspects(mark)]
            # What is gone since the last pass may have forked before: the next pass tells.
            if all(probe(*process) is Liveness.ZOMBIE for process in last):
                del self._in_doubt[job_id]
                self.devices.give_back(job_id)

    def alive(self) -> dict[int, int]:
        """Job id -> attempt of the children that live: the same process as forked, and not a zombie."""
        return {
            job_id: running.lease.attempt
            for job_id, running in self._running.items()
            if is_running(running.child.pid, running.child.start_ticks)
        }
