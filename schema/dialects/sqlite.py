"""SQLite 3.35+: one writer at a time (BEGIN IMMEDIATE), WAL, synchronous=FULL, this host's clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, case, func, text, type_coerce
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DBAPIError

from sqljobs.schema.amounts import MAX_TOTAL, MICRO
from sqljobs.schema.columns import Micros
from sqljobs.schema.dialects.contract import FirstRows, PrefixReading, Trouble
from sqljobs.schema.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from sqljobs.schema.dialects.contract import Rows

OLDEST = (3, 35, 0)
OWN_TRANSACTION = "sqljobs_own_transaction"  # execution option: our engine's begin event leaves BEGIN to us

_PREFIXES = PrefixReading(
    distinct=False,
    first_rows=FirstRows.LIST,
    given=text(
        "SELECT json_extract(value, '$[0]') AS g, json_extract(value, '$[1]') AS t,"
        " json_extract(value, '$[2]') AS u, json_extract(value, '$[3]') AS p FROM json_each(:lanes)"
    ),
)


class SQLite:
    name = "sqlite"

    def check_server(self, conn: Connection) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise DatabaseUnavailable(
                f"SQLite {sqlite3.sqlite_version} is too old: sqljobs needs 3.35 or newer (a newer Python brings it)"
            )

    def begin(self, conn: Connection, *, patience: float) -> datetime:
        # AUTOCOMMIT for SQLAlchemy and the driver, BEGIN by ourselves: the driver's own would be DEFERRED, and a
        # deferred transaction that has read fails at its first write at once, whatever the busy timeout.
        self._end_others(conn)
        conn.exec_driver_sql(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
        conn.exec_driver_sql("PRAGMA synchronous = FULL")
        conn.exec_driver_sql("BEGIN IMMEDIATE")
        return datetime.now(UTC)

    def begin_read(self, conn: Connection) -> datetime:
        return self.now(conn)

    def begin_snapshot(self, conn: Connection) -> datetime:
        self._end_others(conn)
        conn.exec_driver_sql("BEGIN")  # deferred: a read lock with the first SELECT, never a write lock
        return self.now(conn)

    def _end_others(self, conn: Connection) -> None:
        if not conn.in_transaction():
            conn.begin()  # fires the begin event of the user's engine, which may send a BEGIN of its own
        driver = conn.connection.driver_connection
        if driver is not None and driver.in_transaction:
            conn.exec_driver_sql("ROLLBACK")

    def restore(self, conn: Connection) -> None:
        return  # a file's connections are ours, or have a busy timeout of their own that suits reading as well

    def commit(self, conn: Connection) -> None:
        conn.exec_driver_sql("COMMIT")
        conn.commit()

    def rollback(self, conn: Connection) -> None:
        driver = conn.connection.driver_connection
        if driver is not None and driver.in_transaction:
            conn.exec_driver_sql("ROLLBACK")
        conn.rollback()

    def now(self, conn: Connection) -> datetime:
        return datetime.now(UTC)

    def lock(self, select: Rows, *, skip_locked: bool = False) -> Rows:
        return select  # the transaction already holds the only write lock

    def latest(self, select: Rows, *, index: str = "jobs_key") -> Rows:
        return select  # the write lock keeps others from committing

    def prefix_reading(self, conn: Connection) -> PrefixReading:
        return _PREFIXES

    def insert_new(self, conn: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> dict[int, int]:
        statement = (
            insert(table)
            .on_conflict_do_nothing(index_elements=["type", "key_slot"])
            .returning(table.c.batch_no, table.c.id)
        )
        return {row.batch_no: row.id for row in conn.execute(statement, list(rows))}

    def upsert(self, conn: Connection, table: Table, row: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        statement, key = insert(table).values(row), list(table.primary_key)
        if changes:
            conn.execute(statement.on_conflict_do_update(index_elements=key, set_=dict(changes)))
        else:
            conn.execute(statement.on_conflict_do_nothing(index_elements=key))

    def total(self, amounts: ColumnElement[int]) -> ColumnElement[int]:
        # Its sum() of whole numbers fails beyond 64 bits, also where nobody looks at it: hence the parts.
        whole = type_coerce(amounts, BigInteger)
        parts = func.sum(whole // MICRO) * MICRO + func.sum(whole % MICRO)
        return type_coerce(case((func.total(whole) >= MAX_TOTAL, MAX_TOTAL), else_=parts), Micros)

    def serialise(self, conn: Connection, token: str) -> None:
        return  # the transaction is the only one that writes

    def notify(self, conn: Connection, channel: str, payload: str) -> None:
        return  # a supervisor sees by itself that the file has changed

    def missing_table(self, error: BaseException) -> bool:
        return isinstance(error, DBAPIError) and "no such table" in str(error.orig)

    def trouble(self, error: BaseException) -> Trouble:
        code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
        if not isinstance(error, DBAPIError) or code is None:
            return Trouble.OTHER
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Trouble.RETRY
        if code & 0xFF in (
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
        ):
            return Trouble.DISCONNECTED
        return Trouble.OTHER
