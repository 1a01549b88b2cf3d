"""The engine of a supervisor that was given a URL, and of its jobs in fresh interpreters. Connects to nothing."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, QueuePool

from sqljobs.schema.engine import create_own_engine, parse_url


def own_engine(url: str, *, answer_seconds: float) -> Engine:
    """One connection for the loop and a spare: a supervisor may hold slots + 3 sessions with its children.

    Raises `InvalidJob` for a URL that does not parse, `DatabaseUnavailable` for a missing driver."""
    # Kept open on SQLite, too, where the last one to close pays for a checkpoint.
    options: dict[str, Any] = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 1}
    return create_own_engine(parse_url(url), answer_seconds=answer_seconds, **options)
