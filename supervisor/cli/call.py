"""One call of the command line: the options that every command takes, and the database that they lead to."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click
from sqlalchemy import Engine
from sqlalchemy.exc import SAWarning

from sqljobs.schema import migrate
from sqljobs.schema.configure import configure
from sqljobs.schema.engine import create_engine, parse_url
from sqljobs.schema.errors import DatabaseUnavailable, InvalidJob
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.cli.secrets import secrets_of
from sqljobs.supervisor.config import Config, effective_config
from sqljobs.supervisor.registration import refuse_missing_file

BACKENDS = ("sqlite", "postgresql", "mysql", "mariadb")
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Call:
    """What was given before or after the command's name. `secrets`: what no output may hold."""

    url: str | None = None
    schema: str | None = None
    config_file: str | None = None
    as_json: bool = False
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def config(self) -> Config:
        """The effective configuration, its schema in force. Raises `InvalidJob`."""
        self.secrets |= secrets_of(self.url or "") | secrets_of(os.environ.get("SQLJOBS_URL", ""))
        config = effective_config(url=self.url, schema=self.schema, config_file=self.config_file, environ=os.environ)
        self.secrets |= secrets_of(config.url)
        if not config.url.isprintable():
            raise InvalidJob("the database URL holds characters that cannot be printed: write them as %XX")
        if config.schema is not None:
            configure(schema=config.schema)
        return config

    @contextmanager
    def database(self, config: Config | None = None) -> Iterator[Database]:
        """The database, its tables checked. Raises `InvalidJob`, `DatabaseUnavailable`, `NotInitialised`,
        `SchemaOutdated`."""
        with self.engine(config or self.config()) as engine:
            refuse_missing_file(engine)
            database = Database.of(engine)
            migrate.check_server(database)
            migrate.check(database)
            yield database

    @contextmanager
    def engine(self, config: Config) -> Iterator[Engine]:
        """An engine whose first connection may make a SQLite file. Raises `InvalidJob`, `DatabaseUnavailable`."""
        engine = _made(config.url)
        try:
            yield engine
        finally:
            engine.dispose()


def _made(url: str) -> Engine:
    backend = parse_url(url).get_backend_name()
    if backend not in BACKENDS:
        raise DatabaseUnavailable(f"{backend} is not supported: use one of {', '.join(BACKENDS)} in the URL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SAWarning)
            engine = create_engine(url)
    except SAWarning as warning:
        raise InvalidJob(f"the database URL: {str(warning).partition(' and are being ')[0]}") from None
    if engine.dialect.is_async:
        raise InvalidJob(f"the URL names an asynchronous driver, which cannot be used here: write {backend}://")
    return engine


pass_call = click.make_pass_decorator(Call, ensure=True)


def common_options(command: Command) -> Command:
    """--url, --schema, --config and --json, for the group and for each command alike."""
    for option in (
        click.option("--json", is_flag=True, expose_value=False, callback=_set("as_json"), help="Print JSON."),
        click.option(
            "--config",
            expose_value=False,
            callback=_set("config_file"),
            metavar="FILE",
            help="Configuration file (default: sqljobs.toml here).",
        ),
        click.option(
            "--schema",
            expose_value=False,
            callback=_set("schema"),
            metavar="NAME",
            help="Schema or database that holds the tables.",
        ),
        click.option(
            "--url",
            expose_value=False,
            callback=_set("url"),
            metavar="URL",
            help="Database (default: SQLJOBS_URL, SQLJOBS_URL_FILE, sqljobs.toml, sqlite:///sqljobs.db).",
        ),
    ):
        command = option(command)
    return command


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        del parameter
        if value:  # what stands after the command's name is seen last, and wins
            setattr(context.ensure_object(Call), name, value)

    return callback
