"""What a handler has written with the end of its attempt: code of its own, called in the transaction of that end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.transactions import Transaction
from sqljobs.worker_runtime.job_session import AuthorsCode
from sqljobs.worker_runtime.job_steps import is_coroutine_function
from sqljobs.worker_runtime.own_transactions import refuse_inside

Finalizer = Callable[[Session], Any]
MOST = 10_000


class Finalizers:
    """In the order in which they were given."""

    def __init__(self) -> None:
        self._functions: list[Finalizer] = []
        self._is_running = False
        self._code = AuthorsCode("finalize_with")

    def add(self, function: Finalizer) -> None:
        """See `RunningJob.finalize_with`."""
        refuse_inside("finalize_with")
        if not callable(function) or is_coroutine_function(function):
            raise InvalidJob("finalize_with takes a plain function of one session, which is not awaited")
        if len(self._functions) >= MOST:
            raise InvalidJob(f"one attempt may give {MOST:,} functions to finalize_with: let one do more")
        self._functions.append(function)

    def refuse_within(self, verb: str) -> None:
        """Raise `InvalidJob` in one of them: what is written with the end is settled by then."""
        if self._is_running:
            raise InvalidJob(
                f"job.{verb} cannot be called within finalize_with, while the end is written: call it before"
            )

    def __len__(self) -> int:
        return len(self._functions)

    def run(self, tx: Transaction) -> None:
        """Call them with one session in `tx`. Raises as `AuthorsCode.run`."""

        def all_of_them(session: Session) -> None:
            for function in self._functions:
                function(session)
                session.flush()

        if self._functions:
            self._is_running = True
            try:
                self._code.run(tx, all_of_them)
            finally:
                self._is_running = False
