"""What a job does for its handler takes nothing from an engine that both use, and keeps nothing open beside it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text

from sqljobs.schema.engine import create_engine
from sqljobs.schema.transactions import Database
from sqljobs.worker_runtime.running_job import RunningJob
from tests.schema.effects import running
from tests.schema.limiting import limit

USES: dict[str, Callable[[RunningJob], Any]] = {
    "progress": lambda job: job.progress(1),
    "checkpoint": lambda job: job.checkpoint(1),
    "step": lambda job: job.step("plain", lambda: 1),
    "step with a session": lambda job: job.step("own", lambda session: session.scalar(text("SELECT 1")), session=True),
    "upstream": lambda job: job.upstream,
    "spend": lambda job: job.spend("usd", 1),
    "take": lambda job: job.take("usd", 1),
}


@pytest.fixture
def own(engine: Engine) -> Iterator[Engine]:
    """One more engine on the same database."""
    own = create_engine(engine.url)
    yield own
    own.dispose()


@pytest.mark.parametrize("use", USES)
def test_the_handlers_connections_are_left_alone(database: Database, own: Engine, use: str) -> None:
    limit(database, "usd", budget=10)
    one, _ = running(database)
    opened: list[str] = []
    for what in ("connect", "close", "close_detached"):
        event.listen(own, what, lambda *_, what=what: opened.append(what))
    with own.connect().execution_options(sqljobs_read_only=True) as conn:
        assert conn.execute(select(1)).scalar_one() == 1
        pool = own.pool
        opened.clear()
        USES[use](RunningJob(one, Database.of(own)))
        assert opened.count("connect") == opened.count("close") + opened.count("close_detached") > 0
        assert own.pool is pool
        assert conn.execute(select(1)).scalar_one() == 1
