"""What a handler may leave behind that would stand in the way of its own finalize: open transactions on SQLite."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool


def watch_checkouts() -> dict[int, Any]:
    """From now on: the driver connections that are checked out of any pool of this process."""
    checked_out: dict[int, Any] = {}

    def note(driver_connection: Any, _record: Any, _proxy: Any) -> None:
        checked_out[id(driver_connection)] = driver_connection

    def forget(driver_connection: Any, _record: Any) -> None:
        checked_out.pop(id(driver_connection), None)

    event.listen(Pool, "checkout", note)
    event.listen(Pool, "checkin", forget)
    return checked_out


def roll_back_sqlite(checked_out: dict[int, Any]) -> None:
    """Roll back what the handler neither committed nor closed: SQLite has one writer, and we would wait for ourselves.

    The end of the process would roll it back all the same."""
    for driver_connection in list(checked_out.values()):
        if isinstance(driver_connection, sqlite3.Connection) and driver_connection.in_transaction:
            try:
                driver_connection.rollback()
            except sqlite3.Error:
                # Made in another thread, or closed meanwhile: then the finalize waits, and says so.
                continue
