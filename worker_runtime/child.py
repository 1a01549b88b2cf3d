"""The process of one job: settle in, run the handler, write the end of the attempt, leave by _exit. Nothing else."""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlalchemy import Engine

from sqljobs.schema.claim import Lease
from sqljobs.schema.errors import BadHandlers, DatabaseUnavailable, InvalidJob
from sqljobs.schema.finalize import settle_start, start
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.payloads import safe_text, safe_traceback, to_json
from sqljobs.schema.renderings import one_line
from sqljobs.schema.steps import step
from sqljobs.schema.transactions import CommitUnknown, Database
from sqljobs.worker_runtime.arguments import BoundCall, bind_arguments
from sqljobs.worker_runtime.child_hooks import run_end_hooks, run_start_hooks
from sqljobs.worker_runtime.current_job import set_current_job
from sqljobs.worker_runtime.endings import Cancel, Fail, Retry, Snooze
from sqljobs.worker_runtime.job_log import log_exception
from sqljobs.worker_runtime.job_output import Streams, flush_all, identity
from sqljobs.worker_runtime.leftovers import roll_back_sqlite
from sqljobs.worker_runtime.post_fork import forget_inherited_connections, settle_in, silence_signals
from sqljobs.worker_runtime.process_mark import mark_of, own_start_ticks
from sqljobs.worker_runtime.registry import JobType
from sqljobs.worker_runtime.running_job import RunningJob
from sqljobs.worker_runtime.stack_dump import StackDump
from sqljobs.worker_runtime.stop_request import StopRequest
from sqljobs.worker_runtime.stopping import Stopper
from sqljobs.worker_runtime.write_end import write_end

HANDLER_REACHED = b"S"
FINALIZED = b"F"
REASON_BYTES = 2000
STALE, UNREACHABLE = 75, 74
LEAVE_SECONDS = 10.0


@dataclass(frozen=True)
class ChildStart:
    """What the parent hands to a child besides its lease. `reconnect_for`: seconds to look for a lost database.

    `request`: what the parent asks it by to end; `dump`: where it leaves its stacks then. `device_env`: variables that
    tell the job, and all that it starts, its units of devices. `output_fd`: open for
    appending; takes all that the job prints."""

    database: Database
    job_type: JobType
    parent_pid: int
    engines: Sequence[Engine]
    reconnect_for: float
    request: StopRequest
    dump: StackDump
    device_env: Mapping[str, str] = field(default_factory=dict)
    output_fd: int | None = None


def run_child(lease: Lease, given: ChildStart, report_fd: int) -> NoReturn:
    """Run one attempt in the calling, freshly forked process; never returns.

    Exit codes: 0 after a finalize, 75 where the fence was gone, 74 where the database stayed away."""
    fence, output_fd, kept = lease.fence, given.output_fd, [report_fd, given.dump.descriptor]
    settle_in(parent_pid=given.parent_pid, keep_fds=kept, mark=mark_of(fence), output_fd=output_fd)
    streams = Streams(output_fd)
    given.dump.listen()
    os.environ.update(given.device_env)
    step("child.settled")
    forget_inherited_connections([*given.engines, given.database.engine])
    report = _Reports(report_fd)
    database = given.database.patient(reconnect_for=given.reconnect_for)
    job = RunningJob(lease, database, given.request)
    set_current_job(job)
    own_pid = os.getpid()
    unwritten: str | None = None
    try:
        given, outcome = _with_handler(given)
        if outcome is None:
            run_start_hooks(streams.say)
            streams.refill()
            roll_back_sqlite(database.engine)
            outcome = _attempt(lease, given, report)
        if os.getpid() != own_pid:
            os._exit(0)  # a copy that the handler forked and let return: the end of the attempt is not its to write
        silence_signals()
        streams.refill()
        roll_back_sqlite(database.engine)
        if not write_end(database, lease, given.job_type, outcome, job):
            raise _FenceGone
    except _FenceGone:
        os._exit(STALE)
    except (DatabaseUnavailable, CommitUnknown) as error:
        unwritten = f"job {lease.job_id} ran, but its end could not be written: {one_line(error)}"
        # Nobody expects the process to leave: unlike below, it would stay if a hook hung in C.
        faulthandler.dump_traceback_later(LEAVE_SECONDS, exit=True, file=2)
    else:
        step("child.finalized")
        report(FINALIZED)
        given.database.engine.dispose()  # a goodbye to the server, which would note a lost client otherwise
    run_end_hooks(streams.say)
    flush_all()
    if unwritten is not None:
        streams.say(unwritten)  # last: it is what the supervisor logs of it
    os._exit(0 if unwritten is None else UNREACHABLE)


class _FenceGone(Exception):
    """Somebody else has written the end of this attempt."""


class _Reports:
    """The pipe to the parent. A handler may close every descriptor and open others under the same numbers."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = identity(descriptor)

    def __call__(self, what: bytes) -> None:
        """Tell the parent; where the pipe is gone, it learns the same from the rows."""
        if self._identity is not None and identity(self._descriptor) == self._identity:
            os.write(self._descriptor, what)


def _with_handler(given: ChildStart) -> tuple[ChildStart, Outcome | None]:
    """With the function of its type in this process; or how the attempt ends that has none."""
    own_pid = os.getpid()
    try:
        job_type = given.job_type.here()
    except BadHandlers as error:
        return given, Outcome(Cause.INTERRUPTED, error=one_line(error))
    if os.getpid() != own_pid:
        os._exit(0)  # a copy that the import forked
    return replace(given, job_type=job_type), None


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
    stopper = Stopper(given.request)
    stopper.arm()
    return call_handler(given.job_type, call, stopper)


def call_handler(job_type: JobType, call: BoundCall, stopper: Stopper | None = None) -> Outcome:
    """Run the handler and turn whatever comes of it into an outcome; nothing escapes but the end of the process.

    An exception is logged first, unless the attempt was being stopped."""
    own_pid = os.getpid()
    stopper = stopper or Stopper(StopRequest())
    try:
        try:
            value = job_type.function(*call.positional, **call.keywords)
            if inspect.iscoroutine(value):
                value = asyncio.run(stopper.watched(value))
        finally:
            stopper.disarm()
        return _outcome_of_result(value)
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are errors of the handler
        stopper.disarm()
        stopped = stopper.outcome_of(error)
        if stopped is not None:
            return replace(stopped, fatal=job_type.is_fatal(stopped.cause))
        log_exception(error, own_pid)
        return _outcome_of_anything(job_type, error)


def _outcome_of_result(value: object) -> Outcome:
    try:
        return Outcome(Cause.DONE, result=to_json(value, where="result"))
    except InvalidJob as error:
        log_exception(error)
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
