"""Create, check and upgrade the tables with Alembic. Our version table is our own, beside a user's history."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateSchema

from sqljobs.schema.configure import OUR_TABLES, configured_schema
from sqljobs.schema.errors import DatabaseUnavailable, SchemaOutdated, tables_missing
from sqljobs.schema.failures import one_line
from sqljobs.schema.model import VERSION_TABLE
from sqljobs.schema.transactions import Database

T = TypeVar("T")

INIT_LOCK = 0x73716C6A  # "sqlj": any number, the same in every process
INIT_PATIENCE_SECONDS = 120


def newest_version() -> str:
    """The schema version that this code works with."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def initialise(database: Database) -> str:
    """Create or upgrade the tables; any number of processes may do so at once. Returns the version.

    Raises `DatabaseUnavailable` when a table of one of our names is not ours, or the server does not do, and
    `SchemaOutdated` when newer code has made the tables."""
    check_server(database)
    try:
        with _alone(database) as conn:
            _create_schema(conn)
            _refuse_foreign_tables(conn)
            _refuse_newer(version_of(conn))
            config = _config()
            config.attributes.update(connection=conn, transactional_ddl=database.dialect.name != "mysql")
            command.upgrade(config, "head")
    except SQLAlchemyError as error:
        raise DatabaseUnavailable(f"the tables could not be made: {one_line(error)}") from error
    return newest_version()


def check_server(database: Database) -> None:
    """Raises `DatabaseUnavailable` when the server cannot be reached, or is one that sqljobs cannot use."""
    _look(database, database.dialect.check_server)


def current_version(database: Database) -> str | None:
    """The version of the tables that are there, or None. Raises `DatabaseUnavailable`."""
    return _look(database, version_of)


def _look(database: Database, look: Callable[[Connection], T]) -> T:
    try:
        return database.look(look)
    except SQLAlchemyError as error:
        raise DatabaseUnavailable(
            f"the database cannot be reached: {one_line(error)}; check its URL and that it runs"
        ) from error


def check(database: Database) -> None:
    """Raises `NotInitialised` or `SchemaOutdated` unless the tables are of this code's version."""
    found, wanted = current_version(database), newest_version()
    if found is None:
        raise tables_missing(configured_schema())
    if found < wanted:
        raise SchemaOutdated(f"the tables are of version {found}, this code needs {wanted}: run `sqljobs init`")
    _refuse_newer(found)


def _refuse_newer(found: str | None) -> None:
    wanted = newest_version()
    if found is not None and found > wanted:
        raise SchemaOutdated(f"the tables are of version {found}, this code knows {wanted}: upgrade sqljobs")


def as_sql(dialect_name: str) -> str:
    """What `initialise` would run on an empty database, as SQL text. Raises `DatabaseUnavailable` for a schema on
    SQLite."""
    _refuse_schema_on_sqlite(dialect_name)
    output = io.StringIO()
    config = _config(output)
    config.attributes.update(dialect_name=dialect_name, transactional_ddl=dialect_name not in ("mysql", "mariadb"))
    command.upgrade(config, "head", sql=True)
    return output.getvalue()


def _config(output: io.StringIO | None = None) -> Config:
    # stdout is the caller's: Alembic prints to the buffer, or nowhere.
    config = Config(stdout=io.StringIO(), output_buffer=output)
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def version_of(conn: Connection) -> str | None:
    """The version of our tables that this connection sees, or None."""
    context = MigrationContext.configure(
        conn, opts={"version_table": VERSION_TABLE, "version_table_schema": configured_schema()}
    )
    return context.get_current_revision()


@contextmanager
def _alone(database: Database) -> Iterator[Connection]:
    """A connection in a transaction, while no other process is in here."""
    with database.connection() as conn:
        match database.dialect.name:
            case "sqlite":
                conn.exec_driver_sql("PRAGMA journal_mode = WAL")
                database.dialect.begin(conn, patience=INIT_PATIENCE_SECONDS)
            case "postgresql":
                conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": INIT_LOCK})
            case _:
                got = conn.execute(
                    text("SELECT GET_LOCK('sqljobs init', :seconds)"), {"seconds": INIT_PATIENCE_SECONDS}
                )
                if got.scalar_one() != 1:
                    raise DatabaseUnavailable("another `sqljobs init` has been running for two minutes: try again")
        try:
            yield conn
            database.dialect.commit(conn)
        except BaseException:
            database.dialect.rollback(conn)
            raise
        finally:
            if database.dialect.name == "mysql" and not conn.invalidated:
                conn.execute(text("SELECT RELEASE_LOCK('sqljobs init')"))


def _create_schema(conn: Connection) -> None:
    schema = configured_schema()
    if schema is None:
        return
    _refuse_schema_on_sqlite(conn.dialect.name)
    if schema not in inspect(conn).get_schema_names():
        conn.execute(CreateSchema(schema, if_not_exists=True))


def _refuse_schema_on_sqlite(dialect_name: str) -> None:
    if dialect_name == "sqlite" and configured_schema() is not None:
        raise DatabaseUnavailable("SQLite has no schemas: leave --schema out, or name another file in --url")


def _refuse_foreign_tables(conn: Connection) -> None:
    schema, inspector = configured_schema(), inspect(conn)
    existing = [*inspector.get_table_names(schema=schema), *inspector.get_view_names(schema=schema)]
    if VERSION_TABLE in existing:
        return
    sqlite = conn.dialect.name == "sqlite"  # where jobs and Jobs are one table
    foreign = sorted(name for name in existing if (name.lower() if sqlite else name) in OUR_TABLES)
    if foreign:
        elsewhere = "another file in --url" if sqlite else "--schema NAME"
        raise DatabaseUnavailable(
            f"the table {foreign[0]!r} is there already and is not ours: put sqljobs elsewhere with {elsewhere}"
        )
