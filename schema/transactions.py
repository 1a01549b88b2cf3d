"""Transactions of our own: begun by the dialect's rules, retried when that is safe, their steps named.

A failed COMMIT is an unknown outcome; it is settled by reading, never guessed from the exception."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Executable
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from sqljobs.schema.dialects import Dialect, Trouble, dialect_for
from sqljobs.schema.dialects.contract import READ_COMMITTED
from sqljobs.schema.dialects.sqlite import OWN_TRANSACTION
from sqljobs.schema.engine import is_memory
from sqljobs.schema.errors import DatabaseUnavailable, InvalidJob
from sqljobs.schema.failures import Failures, one_line
from sqljobs.schema.long_statements import for_long_statements
from sqljobs.schema.steps import step

T = TypeVar("T")

PATIENCE_SECONDS = 2.0


class NotCommitted:
    """What a `settle` function returns when it read that the transaction did not happen."""


class CommitUnknown(Exception):
    """COMMIT failed in a way that leaves open whether the server carried it out."""


@dataclass(frozen=True)
class Transaction:
    """One open transaction: a connection, its dialect, the database's clock at its begin, the prefix of its steps."""

    name: str
    conn: Connection
    dialect: Dialect
    now: datetime
    told: set[str] = field(default_factory=set, compare=False)  # what was sent to listeners already

    def execute(
        self,
        what: str,
        statement: Executable,
        rows: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    ) -> CursorResult[Any]:
        """Run one statement, announced as step `name.what`."""
        self.step(what)
        return self.conn.execute(statement, rows)

    def step(self, what: str) -> None:
        """Announce the step `name.what`."""
        step(f"{self.name}.{what}")


@dataclass(frozen=True)
class Database:
    """An engine and the rules of its database. The engine may be a user's own: its defaults do not matter.

    `busy_for`: seconds after which a transaction gives up on a busy database, for callers that have more to do.
    `reconnect_for`: seconds for which any transaction looks for a lost database.
    `must_exist`: SQLite shall not make the file anew. `keeps_connections`: False: each is closed after its use, and the
    engine's pool, which may be in use by others, is left as it is."""

    engine: Engine
    dialect: Dialect
    busy_for: float = math.inf
    reconnect_for: float = 0.0
    must_exist: bool = False
    keeps_connections: bool = True

    @classmethod
    def of(cls, engine: Engine, *, busy_for: float = math.inf, must_exist: bool = False) -> Database:
        return cls(engine, dialect_for(engine), busy_for=busy_for, must_exist=must_exist)

    def patient(self, *, reconnect_for: float = 0.0) -> Database:
        """The same for a caller that has nothing else to do."""
        return replace(self, busy_for=math.inf, reconnect_for=reconnect_for)

    def for_authors_code(self) -> Database:
        """The same for transactions that call code of an author's, whose statements may take longer than ours."""
        return replace(self, engine=for_long_statements(self.engine))

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection at our isolation level, whatever the engine's default is."""
        options: dict[str, Any] = {OWN_TRANSACTION: True}
        own = self.engine.get_execution_options().get(READ_COMMITTED)
        if not own:
            options["isolation_level"] = "AUTOCOMMIT" if self.dialect.name == "sqlite" else "READ COMMITTED"
        with self._connect() as conn:
            try:
                yield self._prepared(conn, options)
                if not own:
                    self._restore(conn)
            finally:
                if not (self.keeps_connections or conn.invalidated or is_memory(self.engine.url)):
                    conn.detach()

    def _restore(self, conn: Connection) -> None:
        try:
            self.dialect.restore(conn)
        except SQLAlchemyError:  # all that mattered is committed, or rolled back
            conn.invalidate()

    def _prepared(self, conn: Connection, options: dict[str, Any]) -> Connection:
        driver: Any = self.engine.dialect.dbapi
        try:
            return conn.execution_options(**options)
        except driver.Error as error:
            # SQLAlchemy sends the isolation level past its own translation of errors; a pooled connection may be dead.
            conn.invalidate()
            raise OperationalError("SET TRANSACTION", None, error, connection_invalidated=True) from error

    def _connect(self) -> Connection:
        name = self.engine.url.database if self.dialect.name == "sqlite" else None
        if name and not name.startswith("file:") and not is_memory(self.engine.url):
            folder = os.path.dirname(name)
            if folder and not os.path.isdir(folder):
                raise DatabaseUnavailable(f"there is no folder {folder}: make it first, or check the database URL")
            if self.must_exist and not os.path.exists(name):
                raise DatabaseUnavailable(f"there is no file {name} any more: put it back, or run `sqljobs init`")
        try:
            return self.engine.connect()
        except (TypeError, ValueError) as error:  # drivers take the options of a URL as keywords
            raise InvalidJob(f"the driver does not take an option of the database URL: {one_line(error)}") from error

    def transaction(
        self,
        name: str,
        work: Callable[[Transaction], T],
        *,
        settle: Callable[[Transaction], T | type[NotCommitted]] | None = None,
        patience: float = PATIENCE_SECONDS,
        reconnect_for: float = 0.0,
        keep: bool = True,
    ) -> T:
        """Run `work` in a transaction of its own and commit, or, without `keep`, roll back.

        `work` may run several times: deadlocks, serialization failures, lock timeouts and busy databases are rolled
        back and retried with jitter, at most `RETRIES` times; a lost connection is retried for `reconnect_for`
        seconds. After a COMMIT of unknown outcome `settle` reads, on a fresh connection, what became of it.
        Raises `DatabaseUnavailable` when the retries are used up, `CommitUnknown` when there is no `settle`, or when
        COMMITs go on to fail."""
        failures = self._failures(reconnect_for)
        unsettled = False
        while True:
            try:
                if settle is None or not unsettled:
                    return self._once(name, work, patience, keep)
                settled = self._once(f"{name}.settle", settle, patience, True)
                if settled is not NotCommitted:
                    return settled  # type: ignore[return-value]  # narrowed by identity
                unsettled = False
            except CommitUnknown:
                unsettled = True
                if settle is None or not failures.lost_commit():
                    raise
            except SQLAlchemyError as error:
                failures.met(error)

    def _once(self, name: str, work: Callable[[Transaction], T], patience: float, keep: bool) -> T:
        with self.connection() as conn:
            try:
                step(f"{name}.begin")
                now = self.dialect.begin(conn, patience=patience)
                result = work(Transaction(name, conn, self.dialect, now))
            except BaseException as error:
                self._leave(conn, error)
                raise
            if keep:
                self._commit(name, conn)
            else:
                self._roll_back(conn)
            return result

    def _commit(self, name: str, conn: Connection) -> None:
        step(f"{name}.commit")
        try:
            self.dialect.commit(conn)
        except SQLAlchemyError as error:
            refused = self.dialect.trouble(error) is Trouble.RETRY
            self._roll_back(conn)
            if refused:
                raise
            raise CommitUnknown(one_line(error)) from error
        step(f"{name}.committed")

    def _leave(self, conn: Connection, error: BaseException) -> None:
        if self.dialect.trouble(error) is Trouble.DISCONNECTED:
            # Also where the session answers, such as one that began while its server could only read, and stays so.
            conn.invalidate()
        else:
            self._roll_back(conn)

    def _roll_back(self, conn: Connection) -> None:
        try:
            self.dialect.rollback(conn)
        except SQLAlchemyError:
            # The server forgets an unfinished transaction with its connection.
            conn.invalidate()

    def read(self, name: str, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which only reads, without a write lock. Errors as in `transaction`."""
        return self._retried(lambda: self._read_once(name, work))

    def look(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which only looks, outside of any transaction of ours. Errors as in `transaction`."""

        def once() -> T:
            with self.connection() as conn:
                return work(conn)

        return self._retried(once)

    def _retried(self, once: Callable[[], T]) -> T:
        failures = self._failures()
        while True:
            try:
                return once()
            except SQLAlchemyError as error:
                failures.met(error)

    def _failures(self, reconnect_for: float = 0.0) -> Failures:
        longest = max(reconnect_for, self.reconnect_for)
        return Failures(self.dialect, reconnect_for=longest, busy_for=self.busy_for)

    def _read_once(self, name: str, work: Callable[[Transaction], T]) -> T:
        with self.connection() as conn:
            try:
                result = work(Transaction(name, conn, self.dialect, self.dialect.begin_read(conn)))
            except BaseException as error:
                self._leave(conn, error)
                raise
            conn.rollback()
            return result
