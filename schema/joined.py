"""A transaction that somebody has open, in place of the ones that our own work begins: for tests, which roll it back.

Nothing is ever committed; each piece of work is in a savepoint of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from sqljobs.schema.callers import Caller, connection_of, is_autocommit
from sqljobs.schema.configure import configured_schema
from sqljobs.schema.dialects import dialect_for
from sqljobs.schema.errors import InvalidJob, tables_missing
from sqljobs.schema.transactions import Database, NotCommitted, Transaction

T = TypeVar("T")


@dataclass(frozen=True)
class Joined(Database):
    """What `Database` offers, inside of one transaction. One piece of work at a time, from any thread.

    `clock[0]`: how far its clock is ahead of the database's."""

    conn: Connection = field(default=None)  # type: ignore[assignment] # after those that have defaults
    clock: list[timedelta] = field(default_factory=lambda: [timedelta(0)])
    lock: Any = field(default_factory=threading.RLock, repr=False, compare=False)

    @classmethod
    def to(cls, name: str, caller: Caller) -> Joined:
        """Join the open transaction of `caller`, or open one that the caller ends.

        Raises `TypeError` for anything but a Session or Connection, `InvalidJob` for one that commits each statement by
        itself."""
        conn = connection_of(name, caller)
        if is_autocommit(conn):
            raise InvalidJob(f"{name} needs a transaction that can be rolled back: this connection is on AUTOCOMMIT")
        driver: Any = conn.connection.driver_connection
        if conn.dialect.name == "sqlite" and not driver.in_transaction:
            # Or else the driver takes our first savepoint for the transaction, and commits at its end.
            conn.exec_driver_sql("BEGIN IMMEDIATE")
        return cls(cast(Engine, None), dialect_for(conn), conn=conn)

    def for_authors_code(self) -> Joined:
        """The same: there is but one transaction."""
        return self

    def advance_to(self, moment: datetime) -> None:
        """From now on it is `moment`, or later."""
        self.clock[0] = max(self.clock[0], moment - self.dialect.now(self.conn))

    def advance(self, seconds: float) -> None:
        """From now on it is so much later."""
        self.clock[0] += timedelta(seconds=seconds)

    def transaction(
        self,
        name: str,
        work: Callable[[Transaction], T],
        *,
        settle: Callable[[Transaction], T | type[NotCommitted]] | None = None,
        patience: float = 0.0,
        reconnect_for: float = 0.0,
        keep: bool = True,
    ) -> T:
        """Run `work` once, in a savepoint that is released at its end, or rolled back without `keep`, and on errors."""
        del settle, patience, reconnect_for  # nothing is committed, and nothing can be repeated
        with self.lock:
            savepoint = self.conn.begin_nested()
            try:
                result = work(self._begun(name))
            except BaseException:
                savepoint.rollback()
                raise
            (savepoint.commit if keep else savepoint.rollback)()
            return result

    def read(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads. Raises `NotInitialised` without our tables."""
        with self.lock:
            try:
                return work(self._begun(name))
            except SQLAlchemyError as error:
                if self.dialect.missing_table(error):
                    raise tables_missing(configured_schema()) from None
                raise

    def look(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which only looks."""
        return self.read("look", lambda tx: work(tx.conn))

    def _begun(self, name: str) -> Transaction:
        return Transaction(name, self.conn, self.dialect, self.dialect.now(self.conn) + self.clock[0])
