"""The caller's own transaction: found from a Session or Connection, never flushed, never committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, scoped_session

from sqljobs.schema.configure import configured_schema
from sqljobs.schema.dialects import dialect_for
from sqljobs.schema.dialects.contract import Trouble
from sqljobs.schema.errors import Conflict, tables_missing
from sqljobs.schema.tables import Job
from sqljobs.schema.transactions import Transaction

SERVER_STATUS_IN_TRANS = 1

Caller = Session | scoped_session[Any] | Connection


@contextmanager
def callers_transaction(name: str, caller: Caller, *, changes: bool = False) -> Iterator[Transaction]:
    """The open transaction of `caller`; on an AUTOCOMMIT connection one of our own, for this one call.

    Raises `TypeError` for anything else, saying what to hand over, and `NotInitialised` without our tables. A call that
    `changes` existing jobs, and so waits for others who do, raises `Conflict` where the database has given up the
    caller's transaction for that of another."""
    conn = connection_of(name, caller)
    dialect = dialect_for(conn)
    own = is_autocommit(conn)
    if own:
        conn.exec_driver_sql("BEGIN IMMEDIATE" if dialect.name == "sqlite" else "BEGIN")
    try:
        yield Transaction(name, conn, dialect, dialect.now(conn))
    except SQLAlchemyError as error:
        _roll_back(conn, own)
        if dialect.missing_table(error):
            raise tables_missing(configured_schema()) from None
        if changes and dialect.trouble(error) is Trouble.RETRY:
            told = f"{name}: another transaction is at the same jobs: roll back and repeat the whole transaction"
            raise Conflict(told) from error
        raise
    except BaseException:
        _roll_back(conn, own)
        raise
    if own:
        conn.exec_driver_sql("COMMIT")


def _roll_back(conn: Connection, own: bool) -> None:
    # A session that is gone has rolled back by itself, and a ROLLBACK to it would hide what happened.
    if own and not conn.invalidated:
        conn.exec_driver_sql("ROLLBACK")


def connection_of(name: str, caller: object) -> Connection:
    """The connection that `caller` has, or is. Raises `TypeError` for anything else, saying what to hand over."""
    if isinstance(caller, Connection):
        return caller
    if isinstance(caller, (Session, scoped_session)):
        # Session.connection() does not flush; the mapper finds the bind of a session that has several.
        connection = caller.connection(bind_arguments={"mapper": Job})
        assert isinstance(connection, Connection)
        return connection
    kind = type(caller).__name__
    if kind.startswith("Async"):
        hint = f"for async code call sqljobs.aio.{name}"
    elif kind.endswith("Engine"):
        hint = "open one first: with Session(engine) as session, session.begin(): ..."
    else:
        hint = "hand over the one whose transaction the call shall be part of"
    raise TypeError(f"{name} needs a SQLAlchemy Session or Connection, not {kind}: {hint}")


def is_autocommit(conn: Connection) -> bool:
    """Whether each statement on this connection would commit by itself, asked of the driver: only it knows."""
    if not conn.in_transaction():
        conn.begin()
    driver: Any = conn.connection.driver_connection
    match conn.dialect.name:
        case "postgresql":
            idle = getattr(getattr(driver, "info", None), "transaction_status", None)
            return bool(getattr(driver, "autocommit", False)) and getattr(idle, "name", "IDLE") == "IDLE"
        case "sqlite":
            return driver.isolation_level is None and not driver.in_transaction
        case _:
            # The flag of the protocol that is set after a BEGIN by hand; ours would commit what came before it.
            return bool(driver.get_autocommit()) and not driver.server_status & SERVER_STATUS_IN_TRANS
