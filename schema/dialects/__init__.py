"""What differs between the databases: one narrow contract, one file per database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Select, Table

from sqljobs.schema.errors import DatabaseUnavailable


class Trouble(Enum):
    """What an exception of a driver means for a transaction of ours."""

    RETRY = "retry"  # deadlock, serialization failure, lock timeout, busy: roll back and run it again
    DISCONNECTED = "disconnected"  # the connection, or the server, is gone: a fresh connection may work
    OTHER = "other"  # a fault in data or code


class Dialect(Protocol):
    """The contract. All functions act on one connection of ours or of a caller."""

    name: str

    def check_server(self, conn: Connection) -> None:
        """Raise `DatabaseUnavailable` when this server is too old or set up in a way that would lose jobs."""

    def begin(self, conn: Connection, *, patience: float) -> datetime:
        """Begin a write transaction of our own, wait at most `patience` seconds for locks; returns the clock."""

    def commit(self, conn: Connection) -> None:
        """COMMIT; on failure the outcome is unknown."""

    def rollback(self, conn: Connection) -> None:
        """ROLLBACK, whatever the connection's state."""

    def now(self, conn: Connection) -> datetime:
        """The database's clock at this moment (not the transaction's start)."""

    def lock(self, select: Select[Any], *, skip_locked: bool = False) -> Select[Any]:
        """`select` of jobs by primary key, made to lock the rows that it returns and no others."""

    def latest(self, select: Select[Any]) -> Select[Any]:
        """`select` of taken keys, made to see what others have committed since the snapshot of the caller."""

    def insert_new(self, conn: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> dict[int, int]:
        """Insert job rows with ids of the database's making; rows whose (type, key_slot) is taken are left out.

        Returns `batch_no -> id` of those inserted. The caller's transaction stays usable."""

    def missing_table(self, error: BaseException) -> bool:
        """Whether the driver says that a table of ours does not exist."""

    def trouble(self, error: BaseException) -> Trouble:
        """Classify an exception of the driver."""


def dialect_for(engine: Engine | Connection) -> Dialect:
    """The rules for this engine's database. Raises `DatabaseUnavailable` for one we do not know."""
    from sqljobs.schema.dialects.mysql import MySQL
    from sqljobs.schema.dialects.postgresql import PostgreSQL
    from sqljobs.schema.dialects.sqlite import SQLite

    known: dict[str, Dialect] = {
        "sqlite": SQLite(),
        "postgresql": PostgreSQL(),
        "mysql": MySQL(),
        "mariadb": MySQL(),
    }
    name = engine.dialect.name
    if name not in known:
        raise DatabaseUnavailable(f"{name} is not supported: use SQLite, PostgreSQL, MySQL or MariaDB")
    return known[name]
