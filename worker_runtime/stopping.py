"""What SIGTERM means to a handler that the supervisor has asked to end: `Stopping`, or the cancel of its task."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

from sqljobs.schema.outcomes import Outcome
from sqljobs.worker_runtime.post_fork import silence_signals
from sqljobs.worker_runtime.stop_request import StopRequest

R = TypeVar("R")


class Stopping(BaseException):
    """Raised in the handler's main thread when it was asked to end and has not; see `job.stopping`. SIGKILL follows.

    One that leaves the handler ends the attempt as its reason says."""


Stopping.__module__ = "sqljobs"


class Stopper:
    """Raises `Stopping` in a synchronous handler, cancels the task of an asynchronous one; once, and not again.

    Of the main thread. A handler that installs its own handler of SIGTERM replaces this one."""

    def __init__(self, request: StopRequest) -> None:
        self._request = request
        self._armed = self._was_armed = False
        self._task: asyncio.Task[Any] | None = None
        self._has_cancelled = False

    def arm(self) -> None:
        """The handler is about to be called."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # What the handler forks, such as the workers of a pool, ends by SIGTERM as it would without us.
        os.register_at_fork(after_in_child=self._leave_to_default)
        self._armed = self._was_armed = True

    def disarm(self) -> None:
        """The handler has ended: no `Stopping` from now on; and, if `arm` was called, nothing of its own signals."""
        self._armed = False
        if self._was_armed:
            silence_signals()

    async def watched(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Await the handler in the running task, which SIGTERM cancels meanwhile."""
        self._task = asyncio.current_task()
        try:
            return await coroutine
        finally:
            self._task = None

    def outcome_of(self, error: BaseException) -> Outcome | None:
        """How the attempt ends if `error`, which has left the handler, is of our making; else None."""
        kind = type(error)  # not isinstance(): an exception of the handler's may have its say in that
        ours = issubclass(kind, Stopping) or (self._has_cancelled and issubclass(kind, asyncio.CancelledError))
        return self._request.outcome if ours and self._request.reason is not None else None

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        if self._request.reason is None:  # sent by somebody else: it ends the process, as it always does
            self._leave_to_default()
            signal.raise_signal(signal.SIGTERM)
        if not self._armed:
            return
        self._armed = False
        if self._task is None or self._task.done():
            raise Stopping(self._request.reason)
        self._has_cancelled = self._task.cancel()
        # Without a word the loop sleeps on, since a signal alone does not end its wait.
        self._task.get_loop().call_soon_threadsafe(lambda: None)

    def _leave_to_default(self) -> None:
        with suppress(ValueError):  # not in the main thread: there it stays as it is
            if signal.getsignal(signal.SIGTERM) == self._on_sigterm:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
