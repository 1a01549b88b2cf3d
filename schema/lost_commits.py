"""What became of an operator's transaction when its COMMIT got no answer: read, and only then repeated."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import select

from sqljobs.schema.enqueue import Enqueued, enqueue_many
from sqljobs.schema.moves import by_primary_key
from sqljobs.schema.specs import CheckArgs, DefaultsOf, JobSpec
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import NotCommitted, Transaction

Happened = Callable[[Any], bool]


class SettledEnqueue:
    """One call of `enqueue_many` in a transaction of our own; `work` and `settle` are for `Database.transaction`."""

    def __init__(
        self,
        specs: Sequence[JobSpec],
        defaults_of: DefaultsOf,
        check_args: CheckArgs,
        *,
        awaits_child: bool = False,
        refs: Sequence[str | None] = (),
    ) -> None:
        self._write = partial(
            enqueue_many,
            specs=specs,
            defaults_of=defaults_of,
            check_args=check_args,
            awaits_child=awaits_child,
            refs=refs,
        )
        self._batch = uuid.uuid4().hex
        self._enqueued: list[Enqueued] = []

    def work(self, tx: Transaction) -> list[Enqueued]:
        """Errors as in `enqueue_many`."""
        tx.dialect.serialise(tx.conn, self._batch)
        self._enqueued = self._write(tx, batch=self._batch)
        return self._enqueued

    def settle(self, tx: Transaction) -> list[Enqueued] | type[NotCommitted]:
        """The result, if a row of this call is there. One that wrote nothing may well be made again."""
        tx.dialect.serialise(tx.conn, self._batch)
        written = [one.id for one in self._enqueued if one.created][:1]
        statement = select(jobs.c.id).where(jobs.c.id.in_(written), jobs.c.batch == self._batch)
        found = tx.execute("read", tx.dialect.lock(by_primary_key(statement))).first() if written else None
        return NotCommitted if found is None else self._enqueued


class SettledAct:
    """An act that changes jobs and returns their ids. `happened` says of a row whether the act is to be seen in it."""

    def __init__(self, work: Callable[[Transaction], list[int]], happened: Happened) -> None:
        self._work = work
        self._happened = happened
        self._changed: list[int] = []

    def work(self, tx: Transaction) -> list[int]:
        """Errors as in the act's own function."""
        self._changed = self._work(tx)
        return self._changed

    def settle(self, tx: Transaction) -> list[int] | type[NotCommitted]:
        """The result, if the first job shows it: all were changed in one transaction, or none."""
        columns = (jobs.c.id, jobs.c.state, jobs.c.reason, jobs.c.cancel_requested_at)
        statement = select(*columns).where(jobs.c.id.in_(self._changed[:1]))
        # Locked, since the server may carry out the COMMIT only now; until then the lost session holds the row.
        row = tx.execute("read", tx.dialect.lock(by_primary_key(statement))).first()
        return self._changed if row is not None and self._happened(row) else NotCommitted


def is_cancelled(row: Any) -> bool:
    """Whether a job that could be cancelled was."""
    return row.state == State.CANCELLED.value or row.cancel_requested_at is not None


def is_open_again(row: Any) -> bool:
    """Whether a job that had ended badly was retried: it is open, or has come to another end since."""
    return State(row.state) not in FINAL or row.state == State.DONE.value


def is_skipped(row: Any) -> bool:
    """Whether a job that had failed was skipped; a container is done by its members."""
    return row.state == State.DONE.value or State(row.state) not in FINAL
