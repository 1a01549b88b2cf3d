"""What each database must offer: the contract that the files beside this one fulfil."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, Table, TextClause

if TYPE_CHECKING:
    # Any number of columns; SQLAlchemy 2.0 and 2.1 spell that differently.
    Rows: TypeAlias = Select[*tuple[Any, ...]]

# Execution option of an engine for our own transactions alone, at READ COMMITTED from the start: on MySQL and MariaDB
# setting and resetting it are four round trips for each transaction.
READ_COMMITTED = "sqljobs_read_committed"


class Trouble(Enum):
    """What an exception of a driver means for a transaction of ours."""

    RETRY = "retry"  # deadlock, serialization failure, lock timeout, busy: roll back and run it again
    DISCONNECTED = "disconnected"  # the connection, or the server, is gone: a fresh connection may work
    OTHER = "other"  # a fault in data or code


class FirstRows(Enum):
    """How a server reads the first few rows of each of many prefixes of an index in one statement."""

    LATERAL = "lateral"  # a limited select for each prefix
    LIST = "list"  # ids IN a limited select
    PLACES = "places"  # no such select: one of a single row for each place, or UNION


@dataclass(frozen=True)
class PrefixReading:
    """How a server reads from an index without walking over all the rows that share a prefix.

    `distinct`: SELECT DISTINCT of a prefix reads one entry of each. `given`: a SELECT of rows (g, t, u, p) from the
    JSON array of arrays `:lanes`. `bounds`: a prefix must be given as comparisons of rows that name the first column
    as well, because a condition that the partial index repeats does not count as one on the index."""

    distinct: bool
    first_rows: FirstRows
    given: TextClause
    bounds: bool = False


class Dialect(Protocol):
    """The contract. All functions act on one connection of ours or of a caller."""

    name: str

    def check_server(self, conn: Connection) -> None:
        """Raise `DatabaseUnavailable` when this server is too old or set up in a way that would lose jobs."""
        ...

    def begin(self, conn: Connection, *, patience: float) -> datetime:
        """Begin a write transaction of our own, wait at most `patience` seconds for locks; returns the clock."""
        ...

    def begin_read(self, conn: Connection) -> datetime:
        """Begin a transaction of our own that only reads; returns the clock."""
        ...

    def begin_snapshot(self, conn: Connection) -> datetime:
        """Begin anew: a transaction that only reads, and sees one moment of the database; returns the clock."""
        ...

    def restore(self, conn: Connection) -> None:
        """Between transactions: undo what `begin` has set for the whole session, which is not ours."""
        ...

    def commit(self, conn: Connection) -> None:
        """COMMIT; on failure the outcome is unknown."""
        ...

    def rollback(self, conn: Connection) -> None:
        """ROLLBACK, whatever the connection's state."""
        ...

    def now(self, conn: Connection) -> datetime:
        """The database's clock at this moment (not the transaction's start)."""
        ...

    def lock(self, select: Rows, *, skip_locked: bool = False) -> Rows:
        """`select` of jobs by primary key, made to lock the rows that it returns and no others."""
        ...

    def latest(self, select: Rows, *, index: str = "jobs_key") -> Rows:
        """`select` by this index, made to see what others have committed since the snapshot of the caller."""
        ...

    def prefix_reading(self, conn: Connection) -> PrefixReading:
        """How this server reads the first rows of many prefixes of an index."""
        ...

    def insert_new(self, conn: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> dict[int, int]:
        """Insert job rows with ids of the database's making; rows whose (type, key_slot) is taken are left out.

        Returns `batch_no -> id` of those inserted. The caller's transaction stays usable."""
        ...

    def upsert(self, conn: Connection, table: Table, row: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        """Insert `row`; where its primary key is there already, make `changes`, in their order, to that row instead.

        Sees what others have committed meanwhile; the caller's transaction stays usable. Without changes the row that
        is there stays as it is."""
        ...

    def total(self, amounts: ColumnElement[int]) -> ColumnElement[int]:
        """SQL: the sum of these `Micros`, none below 0; it may stop at `MAX_TOTAL`, but never fails for its size."""
        ...

    def serialise(self, conn: Connection, token: str) -> None:
        """Where rows that are not committed cannot be waited for: wait for any other transaction with this token."""
        ...

    def notify(self, conn: Connection, channel: str, payload: str) -> None:
        """Have listeners on `channel` told when this transaction commits; nothing where nobody can listen."""
        ...

    def missing_table(self, error: BaseException) -> bool:
        """Whether the driver says that a table of ours does not exist."""
        ...

    def trouble(self, error: BaseException) -> Trouble:
        """Classify an exception of the driver."""
        ...
