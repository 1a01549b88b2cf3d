"""Fixtures for pytest: `pytest_plugins = ["sqljobs.testing.plugin"]` in the topmost conftest.py.

PYTEST_DONT_REWRITE: there is no assert in here, and pytest would warn where it is imported before it is a plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from sqljobs.schema.engine import create_engine
from sqljobs.schema.migrate import initialise
from sqljobs.schema.transactions import Database

__all__ = ["sqljobs_engine", "sqljobs_session", "sqljobs_url"]


@pytest.fixture(scope="session")
def sqljobs_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database of the tests: a new SQLite file. Override it to test with the database that you run on."""
    return f"sqlite:///{tmp_path_factory.mktemp('sqljobs')}/jobs.db"


@pytest.fixture(scope="session")
def sqljobs_engine(sqljobs_url: str) -> Iterator[Engine]:
    """An engine on that database, which has the tables of sqljobs."""
    engine = create_engine(sqljobs_url)
    initialise(Database.of(engine))
    yield engine
    engine.dispose()


@pytest.fixture
def sqljobs_session(sqljobs_engine: Engine) -> Iterator[Session]:
    """A Session in a transaction that is rolled back after the test, also where the code under test commits it."""
    with sqljobs_engine.connect() as connection:
        transaction = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            yield session
        transaction.rollback()
