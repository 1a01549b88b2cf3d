"""What a database says of its tables, as lines that can be compared. Reads catalogues, so it sees CHECKs, too."""

import re
from typing import Any

from sqlalchemy import Connection, Engine, inspect, text

from sqljobs.schema.configure import OUR_TABLES

_POSTGRESQL = """
SELECT format('%s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
              col.collname, pg_get_expr(d.adbin, d.adrelid))
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation col ON col.oid = a.attcollation
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(:tables)
UNION ALL
SELECT format('%s %s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = ANY(:tables)
UNION ALL
SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename = ANY(:tables)
UNION ALL
SELECT format('%s %s', relname, reloptions::text) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(:tables)
"""


def fingerprint(engine: Engine, tables: frozenset[str] = OUR_TABLES) -> list[str]:
    """Columns, keys, CHECKs, indexes and options of `tables`, sorted."""
    with engine.connect() as conn:
        match conn.dialect.name:
            case "sqlite":
                return _sqlite(conn, tables)
            case "postgresql":
                return sorted(conn.execute(text(_POSTGRESQL), {"tables": sorted(tables)}).scalars())
            case _:
                return _mysql(conn, tables)


def _sqlite(conn: Connection, tables: frozenset[str]) -> list[str]:
    found = conn.execute(text("SELECT tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    return sorted(f"{row.tbl_name}: {part}" for row in found if row.tbl_name in tables for part in _parts(row.sql))


def _parts(statement: str) -> list[str]:
    """A statement of SQLite split at the commas of its outer parentheses: ALTER TABLE has added a column at the end."""
    head, _, body = statement.partition("(")
    parts, depth = [""], 1
    for character in body:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if (depth, character) == (1, ","):
            parts.append("")
        else:
            parts[-1] += character
    return [" ".join(part.split()) for part in (head, *parts[:-1], parts[-1].rstrip().removesuffix(")"))]


def _mysql(conn: Connection, tables: frozenset[str]) -> list[str]:
    there = sorted(tables & set(inspect(conn).get_table_names()))
    made = {table: conn.execute(text(f"SHOW CREATE TABLE {table}")).one()[1] for table in there}
    return sorted(
        f"{table}: {line}" for table, statement in made.items() for line in _lines(_without_counter(statement))
    )


def _without_counter(statement: str) -> str:
    return re.sub(r" AUTO_INCREMENT=\d+", "", statement)


def _lines(statement: str) -> list[str]:
    return [line.strip().rstrip(",") for line in statement.splitlines() if line.strip()]


def execute_script(engine: Engine, script: str) -> None:
    """Run a script of many statements as the database's own client would."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        driver: Any = conn.connection.driver_connection
        match engine.dialect.name:
            case "sqlite":
                driver.executescript(script)
            case "postgresql":
                driver.execute(script)
            case _:
                with driver.cursor() as cursor:
                    for statement in (part.strip() for part in script.split(";\n")):
                        if statement.replace("\n", ""):
                            cursor.execute(statement)
