"""Steps of a job: each runs once, and its result is remembered. Which have run is read once per attempt."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from sqljobs.schema.columns import JsonText
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.fenced import check_running
from sqljobs.schema.memos import read_memo, read_names, settle_memo, write_memo
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.schema.transactions import NotCommitted, Transaction
from sqljobs.schema.values import check_name
from sqljobs.worker_runtime.job_session import AuthorsCode, RaisedInside
from sqljobs.worker_runtime.own_transactions import OwnTransactions, refuse_inside

Function = Callable[..., Any]


class Steps:
    """The steps of one job, as its running attempt sees them."""

    def __init__(self, own: OwnTransactions) -> None:
        self._own = own
        self._lock = threading.RLock()
        self._done: set[str] | None = set() if own.fence.attempt == 1 else None
        self._running: set[str] = set()

    def run(
        self, name: str, function: Function, args: tuple[Any, ...], keywords: Mapping[str, Any], *, session: bool
    ) -> Any:
        """See `RunningJob.step`."""
        name = check_name("step: name", name)
        refuse_inside("step")
        if not callable(function):
            raise InvalidJob(f"step {name!r}: hand over the function itself, and its arguments after it")
        call = partial(function, *args, **keywords)
        if is_coroutine_function(function):
            if session:
                raise InvalidJob(f"step {name!r}: with session=True its function is a plain one, which is not awaited")
            return self._run_async(name, call)
        with self._only_one(name):
            if self._has_run(name):
                return self._remembered(name)
            if session:
                return self._run_inside(name, function, args, keywords)
            return self._remember(name, call())

    async def _run_async(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        with self._only_one(name):
            if await asyncio.to_thread(self._has_run, name):
                return await asyncio.to_thread(self._remembered, name)
            value = await call()
            return await asyncio.to_thread(self._remember, name, value)

    def _run_inside(self, name: str, function: Function, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> object:
        code = AuthorsCode(f"the step {name!r}")
        text: JsonText | None = None

        def call(session: Session) -> JsonText | None:
            return text_of_step(name, function(session, *args, **keywords))

        def work(tx: Transaction) -> bool:
            nonlocal text
            check_running(tx, self._own.fence)
            text = code.run(tx, call)
            # Last, since others may want the job's row: so it is locked no longer than for our own statements.
            return write_memo(tx, self._own.fence, name, text)

        try:
            self._own.write("step", work, lambda tx: self._settle(tx, name), authors_code=True)
        except RaisedInside as raised:
            raise raised.error from raised.error.__cause__
        return self._noted(name, text)

    def _remember(self, name: str, value: object) -> object:
        text = text_of_step(name, value)
        self._own.write(
            "step", lambda tx: write_memo(tx, self._own.fence, name, text), lambda tx: self._settle(tx, name)
        )
        return self._noted(name, text)

    def _settle(self, tx: Transaction, name: str) -> bool | type[NotCommitted]:
        return settle_memo(tx, self._own.fence, name)

    def _noted(self, name: str, text: JsonText | None) -> object:
        with self._lock:
            assert self._done is not None
            self._done.add(name)
        return from_json(text, where=f"step {name!r}")

    def _has_run(self, name: str) -> bool:
        with self._lock:
            if self._done is None:
                self._done = self._own.read("step", lambda tx: read_names(tx, self._own.fence.job_id))
            return name in self._done

    def _remembered(self, name: str) -> object:
        text = self._own.read("step", lambda tx: read_memo(tx, self._own.fence.job_id, name))
        return from_json(text, where=f"step {name!r}")

    @contextmanager
    def _only_one(self, name: str) -> Iterator[None]:
        with self._lock:
            if name in self._running:
                raise InvalidJob(f"the step {name!r} is running already: give each step of a job a name of its own")
            self._running.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(name)


def is_coroutine_function(function: Function) -> bool:
    """Whether calling it makes something to be awaited, as far as that can be told."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def text_of_step(name: str, value: object) -> JsonText | None:
    """The result of a step as it is stored. Raises `InvalidJob`."""
    if inspect.iscoroutine(value):
        value.close()
        raise InvalidJob(f"step {name!r}: hand over the coroutine function itself, and await the step")
    return to_json(value, where=f"step {name!r}")
