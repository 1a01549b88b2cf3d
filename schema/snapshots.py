"""Several reads that see the database as it was at one moment. Writes nothing, locks nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sqljobs.schema.transactions import Database, Transaction

T = TypeVar("T")


def read_snapshot(database: Database, name: str, work: Callable[[Transaction], T]) -> T:
    """Run `work`, which only reads, in one snapshot. Errors as in `Database.read`.

    Keep it short: what others delete meanwhile cannot be cleaned up, and SQLite's log grows."""

    def in_snapshot(tx: Transaction) -> T:
        result = work(replace(tx, now=tx.dialect.begin_snapshot(tx.conn)))
        tx.dialect.rollback(tx.conn)
        return result

    return database.read(name, in_snapshot)


def sees_old_rows(tx: Transaction) -> bool:
    """Whether reads in this transaction show what was committed before its first one, and nothing later: so with
    callers at REPEATABLE READ or above, which is the default of MySQL and MariaDB. On SQLite who writes sees all."""
    return tx.dialect.name != "sqlite" and tx.conn.get_isolation_level() in ("REPEATABLE READ", "SERIALIZABLE")
