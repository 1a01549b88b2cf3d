"""Databases for the conformance suite: each test runs once with each kind, on tables that are there and empty."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, delete

from sqljobs.schema.engine import create_engine
from sqljobs.schema.migrate import initialise
from sqljobs.schema.model import Model
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.servers import Server


@pytest.fixture(scope="session")
def shared_url(server: Server) -> Iterator[str]:
    """One database with our tables for the whole session, since making the tables costs more than most tests."""
    server.start()
    url = server.new_database()
    engine = create_engine(url)
    initialise(Database.of(engine))
    engine.dispose()
    yield url
    server.start()
    server.drop_database(url)


@pytest.fixture
def engine(server: Server, shared_url: str) -> Iterator[Engine]:
    """An engine on a database whose tables are ours and empty."""
    server.start()
    engine = create_engine(shared_url)
    with engine.begin() as conn:
        for table in Model.metadata.sorted_tables:
            conn.execute(delete(table))
    yield engine
    engine.dispose()


@pytest.fixture
def database(engine: Engine) -> Database:
    """The same as our own transactions see it."""
    return Database.of(engine)


@pytest.fixture
def empty_engine(db_url: str) -> Iterator[Engine]:
    """An engine on a database of this test's own, without any table."""
    engine = create_engine(db_url)
    yield engine
    engine.dispose()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Threads that stop at the steps of our transactions."""
    with Stage() as stage:
        yield stage
