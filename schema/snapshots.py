"""Several reads that see the database as it was at one moment. Writes nothing, locks nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Connection

from sqljobs.schema.transactions import Database, Transaction

T = TypeVar("T")


def read_snapshot(database: Database, name: str, work: Callable[[Transaction], T]) -> T:
    """Run `work`, which only reads, in one snapshot. Errors as in `Database.read`.

    Keep it short: what others delete meanwhile cannot be cleaned up, and SQLite's log grows."""

    def in_snapshot(tx: Transaction) -> T:
        _begin(tx.conn)
        result = work(replace(tx, now=tx.dialect.begin_read(tx.conn)))
        tx.dialect.rollback(tx.conn)
        return result

    return database.read(name, in_snapshot)


def _begin(conn: Connection) -> None:
    match conn.dialect.name:
        case "sqlite":
            if not conn.in_transaction():
                conn.begin()  # fires the begin event of the user's engine, which may send a BEGIN of its own
            driver = conn.connection.driver_connection
            if driver is not None and driver.in_transaction:
                conn.exec_driver_sql("ROLLBACK")
            conn.exec_driver_sql("BEGIN")  # deferred: a read lock with the first SELECT, never a write lock
        case "postgresql":
            conn.rollback()
            conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        case _:
            conn.rollback()
            conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            conn.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
