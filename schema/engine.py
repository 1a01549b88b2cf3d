"""Engines: URLs with our drivers, and what each database needs at connect. No statement of ours is here."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from typing import Any

import sqlalchemy
from sqlalchemy import URL, Connection, Engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from sqljobs.schema.dialects.contract import READ_COMMITTED
from sqljobs.schema.dialects.sqlite import OWN_TRANSACTION
from sqljobs.schema.errors import DatabaseUnavailable, InvalidJob

DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
EXTRAS = {"psycopg": "sqljobs[postgresql]", "pymysql": "sqljobs[mysql]"}
CONNECT_SECONDS = 5
BUSY_SECONDS = 5
READ_ONLY = "sqljobs_read_only"


def parse_url(url: str | URL) -> URL:
    """The URL with our driver filled in, and an absolute file name for SQLite (a handler may change directory).

    Raises `InvalidJob` when it does not parse."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        raise InvalidJob(
            "the database URL does not parse: write e.g. sqlite:///jobs.db or postgresql://user@host/name"
        ) from None
    parsed = parsed.set(drivername=DRIVERS.get(parsed.drivername, parsed.drivername))
    name = parsed.database
    if parsed.get_backend_name() == "sqlite" and name and name != ":memory:" and not name.startswith("file:"):
        parsed = parsed.set(database=os.path.abspath(name))
    return parsed


def create_engine(url: str | URL, **options: Any) -> Engine:
    """SQLAlchemy's `create_engine`, plus what sqljobs needs.

    `postgres://`, `postgresql://`, `mysql://` and `mariadb://` get our drivers. On SQLite: WAL, synchronous=FULL, a
    busy timeout of 5 s, and transactions that begin IMMEDIATE, so that one which reads first can still write; an engine
    or connection with the execution option `sqljobs_read_only=True` begins DEFERRED. On servers: time limits for the
    connection, so that a vanished host is noticed.
    Raises `InvalidJob` for a URL that does not parse, `DatabaseUnavailable` for a missing driver."""
    parsed = parse_url(url)
    backend = parsed.get_backend_name()
    if backend == "sqlite" and parsed.database and parsed.database != ":memory:":
        options.setdefault("poolclass", NullPool)
    for name, value in _connect_arguments(parsed).items():
        options.setdefault("connect_args", {}).setdefault(name, value)
    try:
        engine = sqlalchemy.create_engine(parsed, **options)
    except NoSuchModuleError:
        raise DatabaseUnavailable(
            f"no driver for {parsed.drivername}: use sqlite, postgresql, mysql or mariadb in the URL"
        ) from None
    except ModuleNotFoundError as error:
        package = EXTRAS.get(error.name or "", error.name)
        raise DatabaseUnavailable(f"the driver {error.name} is not installed: run pip install '{package}'") from None
    if parsed.get_driver_name() == "pymysql":
        from sqljobs.schema.dialects import pymysql_connection

        event.listen(engine, "do_connect", pymysql_connection.connect)
    if backend == "sqlite":
        event.listen(engine, "connect", _sqlite_connect)
        event.listen(engine, "begin", _sqlite_begin)
    return engine


def _connect_arguments(url: URL) -> dict[str, Any]:
    match url.drivername:
        case "postgresql+psycopg":
            return {
                "connect_timeout": CONNECT_SECONDS,
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 15000,
                "prepare_threshold": None,  # a transaction pooler gives each transaction another session
            }
        case "mysql+pymysql" | "mariadb+pymysql":
            return {"connect_timeout": CONNECT_SECONDS}
    return {}


def create_own_engine(url: str | URL, *, answer_seconds: float, **options: Any) -> Engine:
    """An engine for sqljobs' own transactions, which are short: READ COMMITTED from the start, and a server that does
    not answer within `answer_seconds` counts as gone. Errors as in `create_engine`."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return create_engine(parsed, **options)
    connect_seconds = max(2, min(CONNECT_SECONDS, round(answer_seconds)))  # libpq's least is 2
    arguments: dict[str, Any] = {"connect_timeout": connect_seconds}
    if parsed.get_driver_name() == "pymysql":
        arguments |= {"read_timeout": answer_seconds, "write_timeout": answer_seconds}
    options |= {"isolation_level": "READ COMMITTED", "execution_options": {READ_COMMITTED: True}}
    engine = create_engine(parsed, connect_args=arguments, **options)
    if parsed.get_driver_name() == "psycopg":
        from sqljobs.schema.dialects import psycopg_connection

        event.listen(engine, "do_connect", psycopg_connection.limited(answer_seconds))
    return engine


def _sqlite_connect(driver_connection: Any, _record: Any) -> None:
    driver_connection.isolation_level = None  # BEGIN is ours, the driver's would be DEFERRED
    cursor = driver_connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _use_wal(cursor: Any) -> None:
    """Written in the file once and for all; of several who do so at the same time SQLite refuses some without waiting,
    whatever the busy timeout says."""
    give_up_at = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= give_up_at:
                raise
            time.sleep(random.uniform(0.001, 0.02))


def _sqlite_begin(conn: Connection) -> None:
    options = conn.get_execution_options()
    if options.get(OWN_TRANSACTION) or options.get("isolation_level") == "AUTOCOMMIT":
        return
    conn.exec_driver_sql("BEGIN" if options.get(READ_ONLY) else "BEGIN IMMEDIATE")


def is_memory(url: URL) -> bool:
    """Whether this SQLite URL has no file, so that another process could not see it."""
    return url.get_backend_name() == "sqlite" and (not url.database or ":memory:" in url.database)
