"""Write the dumps of the schema version of now: `python -m tests.dumps.make`. Once per version, before the next one."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema import migrate
from sqljobs.schema.claim import Claimer, claim
from sqljobs.schema.columns import JsonText
from sqljobs.schema.finalize import finalize, start
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.specs import Defaults
from sqljobs.schema.transactions import Database, Transaction
from stress.servers.registry import Servers
from stress.servers.server import KINDS
from tests.dumps.load import FOLDER

TABLES = ("jobs", "job_deps", "job_attempts")


def fill(engine: Engine) -> None:
    """Jobs in every state that this version knows, with values that are hard to keep."""
    spec = sqljobs.JobSpec
    first = spec("asynchronous", {"number": 2**70}, group="Äé😀", key="order-1", weight=3, priority=-5)
    broken = spec("ends", {"how": "fail"})
    with Session(engine) as session, session.begin():
        ids = sqljobs.enqueue_many(
            session,
            [
                first,
                broken,
                spec("asynchronous", {"number": 1}),
                spec("asynchronous", {"number": 7}, after=[first]),
                spec("asynchronous", {"number": 8}, after=[broken]),
                spec("asynchronous", {"number": 9}, run_after="300d"),
                spec("asynchronous", {"number": 10}, key="it's a \\ 'key'", key_for="ever"),
            ],
        )
        waits = sqljobs.enqueue(session, "asynchronous", {"number": 11}, after=[ids[2]])
        sqljobs.cancel(session, sqljobs.enqueue(session, "asynchronous", {"number": 12}))
    assert waits
    database = Database.of(engine)
    claimer = Claimer("old/0123456789abcdef", "old", ttl=0.001)

    def work(tx: Transaction) -> None:
        done, failed, held = claim(tx, claimer, [ids[0], ids[1], ids[2]], lambda _: Defaults())
        for lease in (done, failed, held):
            assert start(tx, lease.fence, pid=1)
        finalize(tx, done.fence, Outcome(Cause.DONE, result=JsonText('{"b":1,"a":"ü\\\\"}')), Backoff())
        finalize(tx, failed.fence, Outcome(Cause.FAIL, error="no use; 100 %", reason="no use; 100 %"), Backoff())

    database.transaction("fill", work)


def literal(value: Any, kind: str) -> str:
    """A value as SQL text."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper() if kind == "postgresql" else str(int(value))
        case int() | float() | Decimal():
            return str(value)
        case datetime():
            return f"'{value.isoformat(sep=' ')}'"
    escaped = str(value).replace("'", "''")
    return "'" + (escaped.replace("\\", "\\\\") if kind in ("mysql", "mariadb") else escaped) + "'"


def rows(conn: Connection, table: str, kind: str) -> list[str]:
    """One INSERT per row."""
    lines = []
    for row in conn.execute(text(f"SELECT * FROM {table}")).mappings():
        names = ", ".join(f'"{name}"' if kind in ("sqlite", "postgresql") else f"`{name}`" for name in row)
        values = ", ".join(literal(value, kind) for value in row.values())
        lines.append(f"INSERT INTO {table} ({names}) VALUES ({values});\n")
    return lines


def dump(engine: Engine, kind: str) -> str:
    """The whole database as SQL."""
    with engine.connect() as conn:
        lines = [line for table in TABLES for line in rows(conn, table, kind)]
    if kind == "postgresql":
        lines.append("SELECT setval(pg_get_serial_sequence('jobs', 'id'), (SELECT max(id) FROM jobs));\n")
    return migrate.as_sql(kind) + "\n" + "".join(lines)


def main() -> None:
    """All four, into a folder named after the version."""
    servers = Servers()
    folder = FOLDER / migrate.newest_version()
    folder.mkdir(exist_ok=True)
    try:
        for kind in KINDS:
            engine = sqljobs.create_engine(servers.get(kind).new_database())
            migrate.initialise(Database.of(engine))
            fill(engine)
            (folder / f"{kind}.sql").write_text(dump(engine, kind))
            engine.dispose()
    finally:
        servers.close()


if __name__ == "__main__":
    main()
