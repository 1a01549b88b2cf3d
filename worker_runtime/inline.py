"""A handler run here and now, in the process and thread of a test. Writes nothing, claims nothing."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqljobs.schema.amounts import decimal_of
from sqljobs.schema.claim import Lease
from sqljobs.schema.durations import parse_duration
from sqljobs.schema.errors import InvalidJob, LimitTimeout
from sqljobs.schema.joined import Joined
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.spending import Wait
from sqljobs.schema.transactions import Transaction
from sqljobs.worker_runtime.arguments import bind_arguments
from sqljobs.worker_runtime.child import call_handler
from sqljobs.worker_runtime.current_job import set_current_job
from sqljobs.worker_runtime.finalizers import Finalizers
from sqljobs.worker_runtime.job_session import RaisedInside
from sqljobs.worker_runtime.registry import JobType
from sqljobs.worker_runtime.running_job import RunningJob
from sqljobs.worker_runtime.spending import Amount, Duration, Spending
from sqljobs.worker_runtime.stop_request import StopRequest
from sqljobs.worker_runtime.stopping import Stopper


@dataclass(frozen=True)
class Ran:
    """What came of one attempt, and what the handler raised, if it did."""

    outcome: Outcome
    raised: BaseException | None = None


def run_here(
    job: RunningJob,
    job_type: JobType,
    *,
    started: Callable[[], object] = lambda: None,
    request: StopRequest | None = None,
) -> Ran:
    """Run the handler of `job` as a child would. `started` is called when its arguments are converted; `request`: how
    it is asked to end.

    `current_job()` is `job` meanwhile, and afterwards what it was before. What pytest raises to fail or skip a test
    passes through."""
    try:
        call = bind_arguments(job_type.function, job.args)
    except InvalidJob as error:
        return Ran(Outcome(Cause.BAD_ARGS, error=str(error)), error)
    started()
    seen = _Seen(job_type.function)
    former = set_current_job(job)
    try:
        outcome = call_handler(replace(job_type, function=seen), call, Stopper(request) if request else None)
    finally:
        set_current_job(former)
    if seen.raised is not None and _is_of_pytest(seen.raised):
        raise seen.raised
    return Ran(outcome, seen.raised)


class _Seen:
    """The function, and what it raised at last."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.raised: BaseException | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return _awaited(self._function(*args, **kwargs))
        except BaseException as error:
            self.raised = error
            raise


def _awaited(value: Any) -> Any:
    """The value of a coroutine, in a loop of its own, also where an async test has one that runs."""
    if not inspect.iscoroutine(value):
        return value
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(value)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, asyncio.run, value).result()


def _is_of_pytest(error: BaseException) -> bool:
    """Outcomes of a test, whose own classes say that they are builtins."""
    return any(kind.__module__ == "_pytest.outcomes" for kind in type(error).__mro__)


class JoinedJob(RunningJob):
    """A job that a test runs within its own transaction: all that it writes is written there."""

    def __init__(self, lease: Lease, database: Joined, *, advance_time: bool) -> None:
        super().__init__(lease, database)
        self._spending = _Spending(lease, database, advance_time)
        self.finalizers: _SeenFinalizers = _SeenFinalizers()

    @property
    def has_prepared(self) -> bool:
        """Whether its handler has left anything for its end, which may be refused."""
        return bool(self._children or self._followers or len(self.finalizers))


class _SeenFinalizers(Finalizers):
    """`raised`: what one of them raised."""

    raised: BaseException | None = None

    def run(self, tx: Transaction) -> None:
        try:
            super().run(tx)
        except RaisedInside as raised:
            self.raised = raised.error
            raise


class _Spending(Spending):
    """Waits by setting the clock forward."""

    def __init__(self, lease: Lease, database: Joined, advance_time: bool) -> None:
        super().__init__(lease.fence, database)
        self._joined = database
        self._advance_time = advance_time

    def take(self, name: str, amount: Amount, timeout: Duration | None) -> Decimal:
        """See `RunningJob.take`."""
        left = None if timeout is None else parse_duration(timeout, what="timeout")
        while isinstance(got := self._try(name, amount), Wait):
            if not self._advance_time or got.seconds is None or (left is not None and got.seconds > left):
                raise LimitTimeout(f"there is no room in the limit {name!r}, and in a test nobody else makes some")
            seconds = max(got.seconds, 1e-6)
            self._joined.advance(seconds)
            left = None if left is None else left - seconds
        return decimal_of(got.left)

    async def take_async(self, name: str, amount: Amount, timeout: Duration | None) -> Decimal:
        """See `RunningJob.take_async`."""
        return self.take(name, amount, timeout)
