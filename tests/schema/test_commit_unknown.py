"""COMMITs of which nobody hears what became: settled by reading, once and rightly, whichever way it went."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from sqljobs.schema.claim import claim, settle_claim
from sqljobs.schema.dialects.sqlite import SQLite
from sqljobs.schema.engine import create_engine
from sqljobs.schema.errors import DatabaseUnavailable
from sqljobs.schema.finalize import finalize, settle_finalize, settle_start, start
from sqljobs.schema.steps import set_hook
from sqljobs.schema.transactions import CommitUnknown, Database, Transaction
from tests.schema.actors import Stage
from tests.schema.audit import audit
from tests.schema.locks import waits_for_lock
from tests.schema.playing import ALICE, DONE, NO_DELAY, lease, no_options, put, row, set_off, states, tries
from tests.schema.proxy import Loss, Proxy
from tests.waiting import wait_until

servers = pytest.mark.databases("postgresql", "mariadb", "mysql")
carried_out = pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER], ids=["never arrived", "carried out"])


@dataclass(frozen=True)
class BreakingSQLite(SQLite):
    """SQLite whose disk fails at the COMMITs that `losses` name, before or after they are on it."""

    losses: list[Loss | None]

    def commit(self, conn: Connection) -> None:
        loss = self.losses.pop(0) if self.losses else None
        if loss is not Loss.REQUEST:
            super().commit(conn)
        if loss is not None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise OperationalError("COMMIT", {}, error)


@contextmanager
def losing(database: Database, losses: dict[str, list[Loss]]) -> Iterator[Database]:
    """The same database, where the COMMITs of the named steps are lost, each in its way."""
    if database.dialect.name == "sqlite":
        (in_order,) = ([*ways] for ways in losses.values())
        yield Database(database.engine, BreakingSQLite([*in_order]))
        return
    waiting = {step: [*ways] for step, ways in losses.items()}
    with Proxy(database.engine.url) as proxy:

        def lose(step: str) -> None:
            if waiting.get(step):
                proxy.lose_next(waiting[step].pop(0))

        engine = create_engine(proxy.url)
        former = set_hook(lose)
        try:
            yield Database.of(engine)
        finally:
            set_hook(former)
            engine.dispose()


def finalize_counted(database: Database, fence: Any, runs: list[str], reconnect_for: float = 0.0) -> bool:
    def work(tx: Transaction) -> bool:
        runs.append("work")
        return finalize(tx, fence, DONE, NO_DELAY) is not None

    def settle(tx: Transaction) -> Any:
        runs.append("settle")
        return settle_finalize(tx, fence)

    return bool(database.transaction("finalize", work, settle=settle, reconnect_for=reconnect_for))


@carried_out
def test_finalize(database: Database, loss: Loss) -> None:
    (one,) = set_off(database, put(database))
    dependent = put(database, after=[one.job_id])
    runs: list[str] = []
    with losing(database, {"finalize.commit": [loss]}) as broken:
        assert finalize_counted(broken, one.fence, runs)
    assert runs == ["work", "settle", *(["work"] if loss is Loss.REQUEST else [])]
    assert states(database, [one.job_id, dependent]) == ["done", "ready"]
    assert database.read("audit", audit) == []


@carried_out
def test_start(database: Database, loss: Loss) -> None:
    (one,) = lease(database, put(database))
    with losing(database, {"start.commit": [loss]}) as broken:
        assert broken.transaction(
            "start", lambda tx: start(tx, one.fence, pid=7), settle=lambda tx: settle_start(tx, one.fence)
        )
    assert (row(database, one.job_id).state, tries(database, one.job_id)[0].pid) == ("running", 7)


@carried_out
def test_claim(database: Database, loss: Loss) -> None:
    ids = [put(database) for _ in range(3)]
    with losing(database, {"claim.commit": [loss]}) as broken:
        leases = broken.transaction(
            "claim",
            lambda tx: claim(tx, ALICE, ids[::-1], no_options),
            settle=lambda tx: settle_claim(tx, ALICE, ids[::-1]),
        )
    assert [one.job_id for one in leases] == ids[::-1]
    assert [(one.attempt, one.max_attempts, one.timeout) for one in leases] == [(1, 5, 86400.0)] * 3
    assert [len(tries(database, job_id)) for job_id in ids] == [1] * 3
    assert database.read("audit", audit) == []


def test_settling_is_broken_off_as_well(database: Database) -> None:
    (one,) = set_off(database, put(database))
    runs: list[str] = []
    losses = {"finalize.commit": [Loss.ANSWER], "finalize.settle.commit": [Loss.ANSWER, Loss.REQUEST]}
    if database.dialect.name == "sqlite":
        losses = {"in order": [Loss.ANSWER, Loss.ANSWER, Loss.REQUEST]}
    with losing(database, losses) as broken:
        assert finalize_counted(broken, one.fence, runs)
    assert runs == ["work", "settle", "settle", "settle"]
    assert row(database, one.job_id).state == "done"


def test_commit_that_is_always_lost_comes_to_an_end(database: Database) -> None:
    (one,) = set_off(database, put(database))
    losses = [Loss.REQUEST] * 200
    steps = {"in order": losses} if database.dialect.name == "sqlite" else {"finalize.commit": losses}
    if database.dialect.name == "sqlite":
        losses[1::2] = [None] * 100  # type: ignore[list-item]  # settling reads and commits in between
    with losing(database, steps) as broken, pytest.raises((CommitUnknown, DatabaseUnavailable)):
        finalize_counted(broken, one.fence, [], reconnect_for=3600.0)
    assert row(database, one.job_id).state == "running"


def test_without_a_way_to_settle_it_is_said(database: Database) -> None:
    (one,) = set_off(database, put(database))
    with losing(database, {"x.commit": [Loss.ANSWER]}) as broken, pytest.raises(CommitUnknown):
        broken.transaction("x", lambda tx: finalize(tx, one.fence, DONE, NO_DELAY))
    assert row(database, one.job_id).state == "done"


@servers
def test_finalize_whose_commit_arrives_late(database: Database, stage: Stage) -> None:
    """The server carries out the COMMIT after the client has begun to settle: settling has to wait for it."""
    (one,) = set_off(database, put(database))
    runs: list[str] = []
    with Proxy(database.engine.url) as proxy:
        engine = create_engine(proxy.url)
        actor = stage.actor(lambda: finalize_counted(Database.of(engine), one.fence, runs))
        actor.until("finalize.commit")
        proxy.lose_next(Loss.TIME)
        actor.go()
        wait_until(lambda: waits_for_lock(database), what="somebody's wait for the transaction that hangs")
        proxy.deliver()
        assert actor.finish()
        engine.dispose()
    assert "settle" in runs
    assert runs.count("work") == 1
    assert row(database, one.job_id).state == "done"


@servers
def test_claim_whose_commit_arrives_late(database: Database, stage: Stage) -> None:
    """Otherwise the supervisor would hold leases that it does not know of."""
    ids = [put(database) for _ in range(2)]
    with Proxy(database.engine.url) as proxy:
        engine = create_engine(proxy.url)
        there = Database.of(engine)
        actor = stage.actor(
            lambda: there.transaction(
                "claim", lambda tx: claim(tx, ALICE, ids, no_options), settle=lambda tx: settle_claim(tx, ALICE, ids)
            )
        )
        actor.until("claim.commit")
        proxy.lose_next(Loss.TIME)
        actor.go()
        wait_until(lambda: waits_for_lock(database) or actor.has_ended, what="somebody's wait for the hanging claim")
        proxy.deliver()
        assert [one.job_id for one in actor.finish()] == ids
        engine.dispose()
    assert database.read("audit", audit) == []
