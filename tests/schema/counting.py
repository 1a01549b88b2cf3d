"""How much of its tables a database reads for one look, in its own unit: entries, buffers or steps of its machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event, text

from sqljobs.schema.transactions import Database, Transaction

EVERY = 10  # SQLite tells of so many steps at once


def reads(database: Database, look: Callable[[Transaction], object]) -> int:
    """What `look` makes the database read, once its statements have been planned."""
    counts: list[int] = []

    def work(tx: Transaction) -> None:
        look(tx)
        with _counted(tx.conn, counts):
            look(tx)

    database.read("look", work)
    return sum(counts)


@contextmanager
def _counted(conn: Connection, counts: list[int]) -> Iterator[None]:
    match conn.dialect.name:
        case "sqlite":
            driver: Any = conn.connection.driver_connection
            driver.set_progress_handler(lambda: counts.append(EVERY), EVERY)
            yield
            driver.set_progress_handler(None, 0)
        case "postgresql":
            with _explained(conn, counts):
                yield
        case _:
            before = _handler_reads(conn)
            yield
            counts.append(_handler_reads(conn) - before)


def _handler_reads(conn: Connection) -> int:
    rows = conn.execute(text("SHOW SESSION STATUS LIKE 'Handler_read%'"))
    # The result of that very statement is read from a table, too; which, no other counter than this one tells.
    return sum(int(value) for name, value in rows if name != "Handler_read_rnd_next")


@contextmanager
def _explained(conn: Connection, counts: list[int]) -> Iterator[None]:
    """Each statement is run once more under EXPLAIN, which tells of the pages that it has touched."""

    def listener(_conn: Connection, cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        with cursor.connection.cursor() as own:
            own.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
            plan = own.fetchone()[0][0]["Plan"]
        counts.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] + _rows(plan))

    event.listen(conn, "before_cursor_execute", listener)
    yield
    event.remove(conn, "before_cursor_execute", listener)


def _rows(plan: dict[str, Any]) -> int:
    """Rows that the nodes of a plan have passed on or thrown away."""
    own = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return int(own) + sum(_rows(inner) for inner in plan.get("Plans", ()))
