"""PostgreSQL 13+: SKIP LOCKED at READ COMMITTED, time limits set per transaction (a pooler may sit between)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Table, TwoPhaseTransaction, func, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from sqljobs.schema.dialects.contract import FirstRows, PrefixReading, Trouble
from sqljobs.schema.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from sqljobs.schema.dialects.contract import Rows

OLDEST = (13, 0)
NOTIFY = "sqljobs_notify"  # execution option of a caller: False leaves it to polling
STATEMENT_SECONDS = 30
IDLE_SECONDS = 15
READ_PATIENCE_SECONDS = 2.0  # for a table that somebody has locked as a whole

_BEGIN = text(
    "SELECT set_config('lock_timeout', :patience, true),"
    " set_config('statement_timeout', :statement, true),"
    " set_config('idle_in_transaction_session_timeout', :idle, true), clock_timestamp()"
)
_NOTIFY = text("SELECT pg_notify(:channel, :payload)")
_PREFIXES = PrefixReading(
    distinct=False,
    first_rows=FirstRows.LATERAL,
    given=text(
        "SELECT one ->> 0 AS g, one ->> 1 AS t, one ->> 2 AS u, CAST(one ->> 3 AS integer) AS p"
        " FROM jsonb_array_elements(CAST(:lanes AS jsonb)) AS one"
    ),
    bounds=True,
)
# Serialization failure, deadlock, lock timeout, statement cancelled (by an administrator, or after STATEMENT_SECONDS).
_RETRY = frozenset({"40001", "40P01", "55P03", "57014"})
_DISCONNECTED = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25006"})
# Classes: connection exceptions; a server short of disk, memory or connections; its own trouble with the system.
_DISCONNECTED_CLASSES = ("08", "53", "58")


class PostgreSQL:
    name = "postgresql"

    def check_server(self, conn: Connection) -> None:
        version = conn.dialect.server_version_info or (0,)
        if version < OLDEST:
            shown = ".".join(map(str, version))
            raise DatabaseUnavailable(f"PostgreSQL {shown} is too old: sqljobs needs 13 or newer")

    def begin(self, conn: Connection, *, patience: float) -> datetime:
        row = conn.execute(
            _BEGIN,
            {
                "patience": f"{patience * 1000:.0f}",
                "statement": f"{STATEMENT_SECONDS}s",
                "idle": f"{IDLE_SECONDS}s",
            },
        ).one()
        return _utc(row[3])

    def begin_read(self, conn: Connection) -> datetime:
        return self.begin(conn, patience=READ_PATIENCE_SECONDS)

    def begin_snapshot(self, conn: Connection) -> datetime:
        conn.rollback()
        conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return self.begin_read(conn)

    def restore(self, conn: Connection) -> None:
        return  # all that `begin` sets ends with its transaction

    def commit(self, conn: Connection) -> None:
        conn.commit()

    def rollback(self, conn: Connection) -> None:
        conn.rollback()

    def now(self, conn: Connection) -> datetime:
        return _utc(conn.execute(text("SELECT clock_timestamp()")).scalar_one())

    def lock(self, select: Rows, *, skip_locked: bool = False) -> Rows:
        # NO KEY UPDATE: a foreign key of a user's table to jobs must not collide with a claim.
        return select.with_for_update(key_share=True, skip_locked=skip_locked)

    def latest(self, select: Rows, *, index: str = "jobs_key") -> Rows:
        return select  # READ COMMITTED sees it anyway, and above it the insert itself was refused

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
        return func.sum(amounts)

    def serialise(self, conn: Connection, token: str) -> None:
        conn.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:token, 0))"), {"token": token})

    def notify(self, conn: Connection, channel: str, payload: str) -> None:
        # PREPARE TRANSACTION refuses one that has notified.
        prepares = isinstance(conn.get_transaction(), TwoPhaseTransaction)
        if not prepares and conn.get_execution_options().get(NOTIFY, True):
            conn.execute(_NOTIFY, {"channel": channel, "payload": payload})

    def missing_table(self, error: BaseException) -> bool:
        return getattr(getattr(error, "orig", None), "sqlstate", None) in ("42P01", "3F000")

    def trouble(self, error: BaseException) -> Trouble:
        if not isinstance(error, DBAPIError):
            return Trouble.OTHER
        code = getattr(error.orig, "sqlstate", None) or ""
        if code in _RETRY:
            return Trouble.RETRY
        if error.connection_invalidated or code.startswith(_DISCONNECTED_CLASSES) or code in _DISCONNECTED:
            return Trouble.DISCONNECTED
        # psycopg reports a connection that could not be made, or broke, without a code.
        if not code and type(error.orig).__name__ in ("OperationalError", "ConnectionTimeout"):
            return Trouble.DISCONNECTED
        return Trouble.OTHER


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)
