"""A database with our tables, empty, and a transaction on it that is rolled back: what a user's tests have."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from tests.schema.conftest import engine, shared_engine

__all__ = ["engine", "session", "shared_engine"]


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with engine.connect() as conn:
        transaction = conn.begin()
        with Session(conn, join_transaction_mode="create_savepoint") as session:
            yield session
        transaction.rollback()
