"""A server that stays away for long: tried again, at a bounded rate, for as long as was asked, and no longer."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from sqljobs.schema import failures
from sqljobs.schema.engine import create_engine
from sqljobs.schema.errors import DatabaseUnavailable
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.playing import put
from tests.schema.proxy import Proxy
from tests.schema.test_transactions import bump, servers, weights


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


def test_long_outage(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server stays away for hours: tried again and again, at most once a second on average, and then given up."""
    clock = Clock()
    monkeypatch.setattr(failures, "time", clock)
    url = f"sqlite:///{tmp_path}" if server.kind == "sqlite" else f"{server.kind}://x@127.0.0.1:1/x"
    engine = create_engine(url)
    database = Database.of(engine)
    with pytest.raises(DatabaseUnavailable, match="the database cannot be reached: ") as raised:
        database.transaction("x", lambda _: None, reconnect_for=1000.0)
    assert "\n" not in str(raised.value)
    assert 1000 <= clock.now < 1002
    assert len(clock.naps) > 1500
    assert max(clock.naps) <= 1.0
    with pytest.raises(DatabaseUnavailable):
        database.read("x", lambda _: None)
    engine.dispose()


@servers
def test_deadlock_after_a_long_outage_is_still_run_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "time", Clock())
    job_id = put(database)
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        bump(tx, job_id)
        if len(runs) <= 3:
            with database.connection() as other:
                other.execute(database.dialect.lock(select(jobs.c.id).where(jobs.c.id == holder))).all()
                tx.conn.execute(text(f"SELECT id FROM jobs WHERE id = {holder} FOR UPDATE NOWAIT"))

    holder = put(database)
    with Proxy(database.engine.url) as proxy:
        engine = create_engine(proxy.url)
        proxy.refuse = 3 * failures.RETRIES
        Database.of(engine).transaction("x", work, reconnect_for=10_000.0)
        engine.dispose()
    assert weights(database, job_id) == [2]
