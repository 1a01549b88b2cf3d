"""The process of one job: settle in, run the handler, write the end of the attempt, leave by _exit. Nothing else."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlalchemy import Engine

from sqljobs.schema.claim import Lease
from sqljobs.schema.errors import CycleError, DatabaseUnavailable, DuplicateKey, InvalidJob, Refused, UnknownJob
from sqljobs.schema.finalize import Spawned, finalize, settle_finalize, settle_start, start
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.payloads import safe_text, safe_traceback, to_json
from sqljobs.schema.steps import step
from sqljobs.schema.transactions import CommitUnknown, Database, NotCommitted, Transaction
from sqljobs.worker_runtime.arguments import BoundCall, bind_arguments
from sqljobs.worker_runtime.current_job import set_current_job
from sqljobs.worker_runtime.endings import Cancel, Fail, Retry, Snooze
from sqljobs.worker_runtime.leftovers import roll_back_sqlite, watch_checkouts
from sqljobs.worker_runtime.post_fork import forget_inherited_connections, settle_in, silence_signals
from sqljobs.worker_runtime.process_mark import mark_of, own_start_ticks
from sqljobs.worker_runtime.registry import JobType
from sqljobs.worker_runtime.running_job import RunningJob

HANDLER_REACHED = b"S"
FINALIZED = b"F"
REASON_BYTES = 2000
STALE, UNREACHABLE = 75, 74
REFUSALS = (InvalidJob, UnknownJob, CycleError, Refused, DuplicateKey)


@dataclass(frozen=True)
class ChildStart:
    """What the parent hands to a child besides its lease. `reconnect_for`: seconds to look for a lost database."""

    database: Database
    job_type: JobType
    parent_pid: int
    engines: Sequence[Engine]
    reconnect_for: float


def run_child(lease: Lease, given: ChildStart, report_fd: int) -> NoReturn:
    """Run one attempt in the calling, freshly forked process; never returns.

    Exit codes: 0 after a finalize, 75 where the fence was gone, 74 where the database stayed away."""
    settle_in(parent_pid=given.parent_pid, keep_fds=[report_fd], mark=mark_of(lease.fence))
    step("child.settled")
    forget_inherited_connections([*given.engines, given.database.engine])
    report = _Reports(report_fd)
    job = RunningJob(lease, given.database)
    set_current_job(job)
    own_pid = os.getpid()
    checkouts = watch_checkouts()
    try:
        outcome = _attempt(lease, given, report)
        if os.getpid() != own_pid:
            os._exit(0)  # a copy that the handler forked and let return: the end of the attempt is not its to write
        silence_signals()
        roll_back_sqlite(checkouts)
        _finalize(lease, given, outcome, job.spawned)
    except _FenceGone:
        os._exit(STALE)
    except (DatabaseUnavailable, CommitUnknown) as error:
        print(f"sqljobs: job {lease.job_id} ran, but its end could not be written: {error}", file=sys.stderr)
        os._exit(UNREACHABLE)
    step("child.finalized")
    report(FINALIZED)
    given.database.engine.dispose()  # a goodbye to the server, which would note a lost client otherwise
    _flush()
    os._exit(0)


class _FenceGone(Exception):
    """Somebody else has written the end of this attempt."""


class _Reports:
    """The pipe to the parent. A handler may close every descriptor and open others under the same numbers."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _identity(descriptor)

    def __call__(self, what: bytes) -> None:
        """Tell the parent; where the pipe is gone, it learns the same from the rows."""
        if self._identity is not None and _identity(self._descriptor) == self._identity:
            os.write(self._descriptor, what)


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _attempt(lease: Lease, given: ChildStart, report: _Reports) -> Outcome:
    try:
        call = bind_arguments(given.job_type.function, lease.args)
    except InvalidJob as error:
        return Outcome(Cause.BAD_ARGS, error=str(error))
    if not given.database.transaction(
        "start",
        lambda tx: start(tx, lease.fence, pid=os.getpid(), start_ticks=own_start_ticks()),
        settle=lambda tx: settle_start(tx, lease.fence),
        reconnect_for=given.reconnect_for,
    ):
        raise _FenceGone
    # No connection is held while the handler runs: it may take hours, fork, or close every descriptor.
    given.database.engine.dispose()
    step("child.started")
    report(HANDLER_REACHED)
    return call_handler(given.job_type, call)


def call_handler(job_type: JobType, call: BoundCall) -> Outcome:
    """Run the handler and turn whatever comes of it into an outcome; nothing escapes but the end of the process."""
    try:
        value = job_type.function(*call.positional, **call.keywords)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return _outcome_of_result(value)
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are errors of the handler
        return _outcome_of_anything(job_type, error)


def _outcome_of_result(value: object) -> Outcome:
    try:
        return Outcome(Cause.DONE, result=to_json(value, where="result"))
    except InvalidJob as error:
        return Outcome(Cause.BAD_RESULT, error=str(error))


def _outcome_of_anything(job_type: JobType, error: BaseException) -> Outcome:
    try:
        return _outcome_of_error(job_type, error)
    except BaseException:  # noqa: BLE001 - an exception whose own class raises when it is looked at
        return Outcome(Cause.ERROR, error="the handler raised an exception that cannot be shown: its own code raises")


def _outcome_of_error(job_type: JobType, error: BaseException) -> Outcome:
    reason = safe_text(error, limit_bytes=REASON_BYTES)
    match error:
        case Snooze(after=float(seconds)):
            return Outcome(Cause.SNOOZED, error=reason, after=seconds)
        case Cancel():
            return Outcome(Cause.CANCELLED, error=reason, reason=reason)
        case Fail():
            return Outcome(Cause.FAIL, error=reason, reason=reason)
    trace = safe_traceback(error)
    after = getattr(error, "after", None) if isinstance(error, Retry) else None
    return Outcome(Cause.ERROR, error=trace, after=after, fatal=job_type.is_fatal(Cause.ERROR, error))


def _finalize(lease: Lease, given: ChildStart, outcome: Outcome, spawned: Spawned) -> None:
    def work(tx: Transaction) -> bool:
        return finalize(tx, lease.fence, outcome, given.job_type.backoff, spawned=spawned) is not None

    def settle(tx: Transaction) -> bool | type[NotCommitted]:
        return settle_finalize(tx, lease.fence)

    try:
        won = given.database.transaction("finalize", work, settle=settle, reconnect_for=given.reconnect_for)
    except REFUSALS as error:
        told = f"what the handler has enqueued was refused: {error}"
        _finalize(lease, given, Outcome(Cause.ERROR, error=told), Spawned())
        return
    if not won:
        raise _FenceGone


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # noqa: BLE001 - whatever the handler left there: what it printed is lost, the job is not
            continue
