"""What differs between the databases: one narrow contract, one file per database."""

from __future__ import annotations

from sqlalchemy import Connection, Engine

from sqljobs.schema.dialects.contract import Dialect, Trouble
from sqljobs.schema.errors import DatabaseUnavailable

__all__ = ["Dialect", "Trouble", "dialect_for"]


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
