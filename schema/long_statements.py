"""An engine for code of an author's within our transactions: its statements may take as long as the server allows."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.pool import NullPool

from sqljobs.schema.dialects.contract import READ_COMMITTED
from sqljobs.schema.engine import create_own_engine

ANSWER_SECONDS = 35.0  # a server that is there ends a statement of ours after 30


def for_long_statements(engine: Engine) -> Engine:
    """One to the same database. Our own engine gives up on a server that does not answer within seconds, which for our
    own statements means that it is gone; an engine of a user's stays as it is."""
    if engine.dialect.name == "sqlite" or not engine.get_execution_options().get(READ_COMMITTED):
        return engine
    return create_own_engine(engine.url, answer_seconds=ANSWER_SECONDS, poolclass=NullPool)
