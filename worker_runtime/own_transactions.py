"""What a handler's job writes while the handler runs: one transaction at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.moves import Fence
from sqljobs.schema.transactions import PATIENCE_SECONDS, Database, NotCommitted, Transaction

T = TypeVar("T")

_inside: ContextVar[str | None] = ContextVar("sqljobs_inside", default=None)


class OwnTransactions:
    """The transactions of one attempt besides its start and its end, from any thread of its process."""

    def __init__(self, fence: Fence, database: Database) -> None:
        self.fence = fence
        self._database = database
        self._lock = threading.RLock()

    @cached_property
    def _for_authors(self) -> Database:
        return self._database.for_authors_code()

    def impatient(self) -> OwnTransactions:
        """The same for what may as well be left out: it waits for nobody."""
        return OwnTransactions(self.fence, replace(self._database, busy_for=0.0, reconnect_for=0.0))

    def write(
        self,
        name: str,
        work: Callable[[Transaction], T],
        settle: Callable[[Transaction], T | type[NotCommitted]],
        *,
        patience: float = PATIENCE_SECONDS,
        authors_code: bool = False,
    ) -> T:
        """Run `work`, again where its transaction must be repeated; a lost COMMIT is settled by reading.

        With `authors_code` in it, its statements may take longer than ours. Raises `InvalidJob` inside of code that has
        a session of the job, besides what `Database.transaction` does."""
        refuse_inside(name)
        with self._lock:
            database = self._for_authors if authors_code else self._database
            return database.transaction(name, work, settle=settle, patience=patience)

    def read(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads. Errors as in `write`."""
        refuse_inside(name)
        with self._lock:
            return self._database.read(name, work)


@contextmanager
def inside(what: str) -> Iterator[None]:
    """Until the end of the block this thread, or task, is at work within a transaction of the job."""
    token = _inside.set(what)
    try:
        yield
    finally:
        _inside.reset(token)


def is_inside() -> bool:
    """Whether the caller is."""
    return _inside.get() is not None


def refuse_inside(name: str) -> None:
    """A transaction beside one that is open would wait for it, and for ever where there is one writer at a time."""
    around = _inside.get()
    if around is not None:
        raise InvalidJob(f"job.{name} cannot be called within {around}, whose transaction is open: call it outside")
