"""What a handler may leave behind that would stand in the way of its own finalize: open transactions on SQLite."""

from __future__ import annotations

import gc
import sqlite3

from sqlalchemy import Engine


def roll_back_sqlite(engine: Engine) -> None:
    """Roll back what the handler neither committed nor closed, by SQLAlchemy or without it: where the queue is on
    SQLite, which has one writer, we would wait for ourselves, and every other process for us.

    The end of the process would roll it back all the same."""
    if engine.dialect.name != "sqlite":
        return
    # type(), not isinstance(): a proxy's __class__ may run user code.
    left = [found for found in gc.get_objects() if issubclass(type(found), sqlite3.Connection)]
    for connection in left:
        try:
            if connection.in_transaction:
                connection.rollback()
        except sqlite3.Error:
            # Made in another thread, or closed meanwhile: then the finalize waits, and says so.
            continue
