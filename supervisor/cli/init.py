"""`sqljobs init`: make or upgrade the tables, check them, or print their SQL."""

from __future__ import annotations

import click

from sqljobs.schema import migrate
from sqljobs.schema.configure import configured_schema
from sqljobs.schema.engine import is_memory, parse_url
from sqljobs.schema.errors import DatabaseUnavailable, InvalidJob, NotInitialised, SchemaOutdated
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.cli.call import BACKENDS, Call, common_options, pass_call
from sqljobs.supervisor.cli.failures import ANSWER_IS_NO, report
from sqljobs.supervisor.cli.output import print_json, print_lines, write
from sqljobs.supervisor.cli.secrets import shown_url
from sqljobs.supervisor.config import Config
from sqljobs.supervisor.registration import refuse_missing_file


@click.command("init")
@click.option("--check", is_flag=True, help="Only say whether the tables are there and current (exit 1 if not).")
@click.option("--sql", is_flag=True, help="Print the SQL that makes the tables; connects to nothing.")
@common_options
@pass_call
def init(call: Call, check: bool, sql: bool) -> int:
    """Create or upgrade the tables. Any number of these at once is safe."""
    if check and sql:
        raise InvalidJob("init takes --check or --sql, not both")
    config = call.config()
    if sql:
        return _print_sql(call, config)
    with call.engine(config) as engine:
        if is_memory(engine.url):
            raise InvalidJob("tables in memory are gone when this command ends: name a SQLite file in --url")
        database = Database.of(engine)
        if check:
            return _check(call, database)
        previous = migrate.current_version(database)
        version = migrate.initialise(database)
    if call.as_json:
        print_json({"version": version, "previous": previous, "database": shown_url(str(engine.url))})
    else:
        print_lines([_what_was_done(previous, version, shown_url(str(engine.url)))])
    return 0


def _what_was_done(previous: str | None, version: str, url: str) -> str:
    schema = configured_schema()
    where = f"in {url}" + (f", schema {schema}" if schema else "")
    if previous is None:
        return f"created the tables (version {version}) {where}"
    if previous == version:
        return f"the tables are of version {version} already, {where}"
    return f"upgraded the tables from version {previous} to {version} {where}"


def _check(call: Call, database: Database) -> int:
    try:
        refuse_missing_file(database.engine)
        migrate.check_server(database)
        migrate.check(database)
    except (NotInitialised, SchemaOutdated) as error:
        return report(error, call, ANSWER_IS_NO)
    if call.as_json:
        print_json({"version": migrate.newest_version(), "current": True})
    else:
        print_lines([f"the tables are current (version {migrate.newest_version()})"])
    return 0


def _print_sql(call: Call, config: Config) -> int:
    backend = parse_url(config.url).get_backend_name()
    if backend not in BACKENDS:
        raise DatabaseUnavailable(f"{backend} is not supported: use one of {', '.join(BACKENDS)} in the URL")
    text = migrate.as_sql(backend)
    if call.as_json:
        print_json({"database": backend, "sql": text})
    else:
        write(text)
    return 0
