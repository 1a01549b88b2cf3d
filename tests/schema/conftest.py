"""Databases for the conformance suite: each test runs once with each kind, on tables that are there and empty."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, delete

from sqljobs.schema.engine import create_engine
from sqljobs.schema.migrate import initialise
from sqljobs.schema.model import Model
from sqljobs.schema.transactions import Database
from stress.servers import Server
from tests.schema.actors import Stage


@pytest.fixture(scope="session")
def shared_engine(server: Server) -> Iterator[Engine]:
    """One database with our tables for the whole session, since making the tables costs more than most tests; and one
    engine, which remembers the statements that it has compiled."""
    server.start()
    url = server.new_database()
    engine = create_engine(url)
    initialise(Database.of(engine))
    yield engine
    engine.dispose()
    server.start()
    server.drop_database(url)


@pytest.fixture
def engine(server: Server, shared_engine: Engine) -> Iterator[Engine]:
    """An engine on a database whose tables are ours and empty; its connections are this test's own."""
    if server.pid is None:  # asking it whether it answers costs as much as a test
        server.start()
    with shared_engine.begin() as conn:
        for table in Model.metadata.sorted_tables:
            conn.execute(delete(table))
    yield shared_engine
    shared_engine.dispose()


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
