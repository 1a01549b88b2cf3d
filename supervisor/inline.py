"""All that can run, run inline in the open transaction of a test: the same choice, claim and end, one job at a time."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NoReturn

from sqljobs.schema import chores, late_edges, ready
from sqljobs.schema.amounts import MICRO
from sqljobs.schema.callers import Caller
from sqljobs.schema.claim import Claimer, Lease, claim
from sqljobs.schema.errors import InvalidJob, Refused
from sqljobs.schema.finalize import start
from sqljobs.schema.glance import glance
from sqljobs.schema.job_info import JobInfo
from sqljobs.schema.jobs_read import read_jobs
from sqljobs.schema.joined import Joined
from sqljobs.schema.outcomes import Cause
from sqljobs.schema.ready import Wanted
from sqljobs.schema.transactions import Transaction
from sqljobs.supervisor.admitting import Devices
from sqljobs.supervisor.choosing import choose
from sqljobs.supervisor.fair_share import Candidate, Usage
from sqljobs.supervisor.round import Sight, look
from sqljobs.worker_runtime.current_job import running_job_id
from sqljobs.worker_runtime.endings import Ending
from sqljobs.worker_runtime.inline import JoinedJob, Ran, run_here
from sqljobs.worker_runtime.registry import defaults_of, registered
from sqljobs.worker_runtime.write_end import write_end

NAME = "sqljobs.testing"
LEASE_SECONDS = 60.0
AGING_SECONDS = 600.0
RAISED = (Cause.ERROR.value, Cause.BAD_ARGS.value, Cause.BAD_RESULT.value)
LOOKED_AT = 20  # jobs of one lane: some may be locked by others


def drain(session: Caller, *, limit: int = 1000, advance_time: bool = True, raise_errors: bool = True) -> list[JobInfo]:
    """Run all jobs that can run, here and in the open transaction of `session`; nothing is committed.

    Claims, ends and what follows from them are the real ones, in the order of one supervisor with one slot that has the
    handlers of all types of this process: dependencies, containers, what handlers spawn, limits and holds count. What a
    job uses that is no limit is taken for a device, of which there is enough. A job that is due later (a delay, a
    backoff, a snooze, a limit's window) has its time come when nothing else can run, unless `advance_time` is False.
    `limit`: at most so many attempts. Returns the jobs that were run, in the order of their first attempts, as they are
    at the end.

    With `raise_errors` what a handler raises is raised here, once the end of the attempt is written, and so are
    arguments and results that are refused (`InvalidJob`); `Retry`, `Snooze`, `Fail` and `Cancel` are not. Raises
    `TypeError` for anything but a Session or Connection, `InvalidJob` for one on AUTOCOMMIT, `NotInitialised`, and
    `Refused` when it is called by a handler."""
    if running_job_id() is not None:
        raise Refused("drain is for tests: a handler that must see other jobs to their end waits for them with `after`")
    inline = _Inline(Joined.to("drain", session), advance_time, raise_errors)
    return inline.run(limit)


class _Inline:
    """One call of `drain`."""

    def __init__(self, database: Joined, advance_time: bool, raise_errors: bool) -> None:
        self._database = database
        self._advance_time = advance_time
        self._raise_errors = raise_errors
        self._job_types = registered()
        self._wanted = Wanted(tuple(self._job_types))
        self._claimer = Claimer(f"{NAME}/{uuid.uuid4().hex}", NAME, LEASE_SECONDS)
        # Counted instead of measured: the order of groups shall be the same each time.
        self._starts: Counter[str] = Counter()

    def run(self, limit: int) -> list[JobInfo]:
        ran: dict[int, None] = {}
        attempts = 0
        while attempts < limit and (lease := self._next()) is not None:
            attempts += 1
            ran[lease.job_id] = None
            self._starts[lease.group] += 1
            self._run(lease)
        self._settle()
        return self._database.read("ran", lambda tx: read_jobs(tx, list(ran)))

    def _next(self) -> Lease | None:
        """The next job, claimed; None when nothing can run any more."""
        while True:
            self._settle()
            sight = self._database.read("scan", self._look)
            lease = self._claim(sight)
            if lease is not None:
                return lease
            moment = self._next_moment(sight) if self._advance_time else None
            if moment is None:
                return None
            self._database.advance_to(moment)

    def _settle(self) -> None:
        """What supervisors do for all: late edges, what was left to do, jobs that fall due."""
        busy = True
        while busy:
            seen = self._database.read("look", lambda tx: glance(tx, self._wanted))
            busy = False
            if seen.unchecked:
                count, ended = self._database.transaction("check", late_edges.check_edges)
                for upstream in ended:
                    self._database.transaction("settle", lambda tx, at=upstream: late_edges.settle_ended(tx, at))  # type: ignore[misc]
                busy |= count > 0
            if seen.left:
                busy |= self._database.transaction("chores", chores.work_off) > 0
            if seen.due_in is not None and seen.due_in <= 0:
                busy |= self._database.transaction("due", lambda tx: ready.promote_due(tx, ready.due(tx))) > 0

    def _look(self, tx: Transaction) -> Sight:
        devices = Devices()
        sight = look(tx, self._wanted, NAME, LOOKED_AT, self._job_types, devices)
        limits = {name for name, _ in sight.admitting.rooms}
        for job in sight.jobs:
            for name, amount in sight.uses[job.job_id].items():
                if name not in limits:
                    devices.total = {**devices.total, name: max(devices.total.get(name, 0), amount // MICRO)}
        devices.free = dict(devices.total)
        return sight

    def _claim(self, sight: Sight) -> Lease | None:
        candidates = [
            Candidate(job.job_id, job.group, job.weight, job.priority, job.created_at, job.lane) for job in sight.jobs
        ]
        chosen = choose(
            candidates,
            [],
            {group: Usage(count, count) for group, count in self._starts.items()},
            slots_free=1,
            aging=AGING_SECONDS,
            weights=sight.weights,
            admit=lambda job: sight.admitting.admit(job.job_id, job.group, sight.uses[job.job_id]),
        )
        if not chosen:
            return None
        devices: dict[int, Mapping[str, Sequence[str]]] = {}
        if units := sight.admitting.units(sight.uses[chosen[0]]):
            devices[chosen[0]] = {name: [str(unit) for unit in range(count)] for name, count in units.items()}
        leases = self._database.transaction(
            "claim", lambda tx: claim(tx, self._claimer, chosen, defaults_of, devices=devices)
        )
        return leases[0] if leases else None

    def _next_moment(self, sight: Sight) -> datetime | None:
        """When time alone lets something begin."""
        seen = self._database.read("look", lambda tx: (glance(tx, self._wanted).due_in, tx.now))
        due = None if seen[0] is None else seen[1] + timedelta(seconds=seen[0])
        moments = (due, sight.admitting.next_at(), sight.held_until)
        return min((moment for moment in moments if moment is not None and moment > sight.now), default=None)

    def _run(self, lease: Lease) -> None:
        job = JoinedJob(lease, self._database, advance_time=self._advance_time)
        begin = lambda tx: start(tx, lease.fence, pid=os.getpid())  # noqa: E731
        job_type = self._job_types[lease.type]
        ran = run_here(job, job_type, started=lambda: self._database.transaction("start", begin))
        write_end(self._database, lease, job_type, ran.outcome, job)
        if self._raise_errors:
            self._raise_error(lease, ran, job)

    def _raise_error(self, lease: Lease, ran: Ran, job: JoinedJob) -> None:
        if ran.outcome.cause is Cause.DONE and not job.has_prepared:
            return
        (info,) = self._database.read("ended", lambda tx: read_jobs(tx, [lease.job_id]))
        last = info.attempts[-1]
        if last.cause not in RAISED:
            return
        error = job.finalizers.raised if ran.outcome.cause is Cause.DONE else ran.raised
        if not isinstance(error, Ending):
            _raise(lease, error or InvalidJob(last.error))


def _raise(lease: Lease, error: BaseException) -> NoReturn:
    error.add_note(f"in job {lease.job_id} ({lease.type}), attempt {lease.attempt}, run by sqljobs.testing.drain")
    raise error
