"""What is written with a session of the job is written once, under deadlocks, lost COMMITs, and bad code."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, insert, text, update
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.cancel import cancel
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.failures import RETRIES
from sqljobs.schema.transactions import Database
from tests.schema.effects import busy, effects, fail, finish, running, say, table_of_effects, words
from tests.schema.locks import waits_for_lock
from tests.schema.playing import DONE, end, put, row, states, tries
from tests.schema.proxy import Loss
from tests.schema.test_commit_unknown import carried_out, losing
from tests.waiting import wait_until

servers = pytest.mark.databases("postgresql", "mariadb", "mysql")
Fault = Callable[[Session], Any]


@pytest.fixture(autouse=True)
def _effects(engine: Engine) -> Iterator[None]:
    with table_of_effects(engine):
        yield


@carried_out
def test_a_step_whose_commit_is_lost(database: Database, engine: Engine, loss: Loss) -> None:
    one, _ = running(database)
    calls: list[str] = []

    def counted(session: Session) -> str:
        calls.append("call")
        return say(session, "once")

    with losing(database, {"step.commit": [loss]}) as broken:
        assert sqljobs.RunningJob(one, broken).step("x", counted, session=True) == "once"
    assert len(calls) == (2 if loss is Loss.REQUEST else 1)
    assert words(engine) == ["once"]


@carried_out
def test_a_plain_step_whose_commit_is_lost(database: Database, loss: Loss) -> None:
    one, job = running(database)
    calls: list[str] = []
    with losing(database, {"step.commit": [loss]}) as broken:
        assert sqljobs.RunningJob(one, broken).step("x", lambda: calls.append("call")) is None
    assert calls == ["call"]
    fail(database, one, job)
    assert running(database, one.job_id)[1].step("x", lambda: 1) is None


@carried_out
def test_an_end_whose_commit_is_lost(database: Database, engine: Engine, loss: Loss) -> None:
    one, _ = running(database)
    after = put(database, after=[one.job_id])
    with losing(database, {"finalize.commit": [loss]}) as broken:
        job = sqljobs.RunningJob(one, broken)
        job.finalize_with(lambda session: say(session, "first"))
        job.finalize_with(lambda session: say(session, "second"))
        assert finish(broken, one, job)
    assert words(engine) == ["first", "second"]
    assert states(database, [one.job_id, after]) == ["done", "ready"]


def victim(database: Database, run: Callable[[Fault], None]) -> None:
    """Run code that says "a", is chosen by the server to end a deadlock, and is called again."""
    with database.engine.begin() as conn:
        conn.execute(insert(effects), [{"word": "row"}] * 100)
    met, over = threading.Event(), threading.Event()

    def code(session: Session) -> None:
        say(session, "a")
        session.execute(update(effects).where(effects.c.id == 1).values(number=effects.c.number + 1))
        if not met.is_set():
            met.set()
            wait_until(over.is_set, what="the other transaction's rows")
        session.execute(update(effects).where(effects.c.id == 2).values(number=effects.c.number + 1))

    def other() -> None:
        met.wait(30)
        with database.engine.connect() as conn, conn.begin():  # changes more, so that it is not the victim
            conn.execute(update(effects).where(effects.c.id.between(2, 100)).values(word="changed"))
            over.set()
            wait_until(lambda: waits_for_lock(database), what="the step's wait")
            conn.execute(update(effects).where(effects.c.id == 1).values(word="changed"))

    thread = threading.Thread(target=other)
    thread.start()
    run(code)
    thread.join()
    assert words(database.engine) == ["changed"] * 100 + ["a"]


@servers
def test_a_step_in_a_deadlock(database: Database) -> None:
    _, job = running(database)

    def run(code: Fault) -> None:
        job.step("x", code, session=True)

    victim(database, run)


@servers
def test_an_end_in_a_deadlock(database: Database) -> None:
    one, job = running(database)

    def run(code: Fault) -> None:
        job.finalize_with(code)
        assert finish(database, one, job)

    victim(database, run)
    assert row(database, one.job_id).state == "done"


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("times", [1, RETRIES - 1, RETRIES])
def test_a_busy_database_is_tried_again_so_often(database: Database, engine: Engine, times: int) -> None:
    one, job = running(database)
    calls: list[int] = []

    def busy_at_first(session: Session) -> str:
        calls.append(1)
        say(session, "x")
        if len(calls) <= times:
            raise busy()
        return "x"

    job.finalize_with(busy_at_first)
    assert finish(database, one, job)
    found = tries(database, one.job_id)[0]
    assert (found.cause, words(engine)) == (("done", ["x"]) if times < RETRIES else ("error", []))
    assert len(calls) == min(times + 1, RETRIES)
    assert times < RETRIES or "database is locked" in found.error


def begun_and_committed(session: Session) -> None:
    session.rollback()
    with session.begin():
        say(session, "committed")


FAULTS: dict[str, Fault] = {
    "raises": lambda _session: 1 // 0,
    "exits": lambda _session: exit(3),
    "commits": lambda session: session.commit(),
    "closes": lambda session: session.close(),
    "commits-in-with": begun_and_committed,
    "commits-the-connection": lambda session: session.connection().commit(),
    "rolls-the-connection-back": lambda session: session.connection().rollback(),
    "has-a-fault-in-its-sql": lambda session: session.execute(text("SELECT * FROM nowhere")),
    "sends-a-commit": lambda session: session.execute(text("COMMIT")),
}


def swallowed(fault: Fault) -> Fault:
    def code(session: Session) -> None:
        try:
            fault(session)
        except Exception:  # noqa: BLE001 - as careless code does
            return

    return code


@pytest.mark.parametrize("way", FAULTS)
def test_code_that_may_not_stay(database: Database, engine: Engine, way: str) -> None:
    """It ends the attempt as an error with its traceback; and of what it wrote nothing stays but what it committed."""
    one, job = running(database)
    job.finalize_with(lambda session: say(session, "before"))
    job.finalize_with(FAULTS[way])
    job.spawn("t")
    assert finish(database, one, job)
    found = tries(database, one.job_id)[0]
    assert (found.cause, row(database, one.job_id).result) == ("error", None)
    assert "Traceback" in found.error
    assert words(engine) == (["before"] if way == "sends-a-commit" else [])
    _, again = running(database, one.job_id)
    with pytest.raises(BaseException):  # noqa: B017 - each of its kind
        again.step("x", FAULTS[way], session=True)
    assert again.step("x", say, "after", session=True) == "after"


@pytest.mark.parametrize("way", ["commits", "closes", "commits-in-with", "commits-the-connection"])
def test_answers_that_are_swallowed(database: Database, engine: Engine, way: str) -> None:
    one, job = running(database)

    def code(session: Session) -> None:
        say(session, "x")
        swallowed(FAULTS[way])(session)

    job.finalize_with(code)
    assert finish(database, one, job)
    ended_well = tries(database, one.job_id)[0].cause == "done"
    assert words(engine) == (["x"] if ended_well else [])
    assert ended_well is (way in ("commits", "closes"))  # refused before anything happened


def test_only_a_good_end_is_written_with(database: Database, engine: Engine) -> None:
    one, job = running(database)
    job.finalize_with(lambda session: say(session, "failed"))
    fail(database, one, job)
    two, again = running(database, one.job_id)
    again.finalize_with(lambda session: say(session, "cancelled"))
    database.transaction("cancel", lambda tx: cancel(tx, [one.job_id]))
    assert finish(database, two, again)
    ended = row(database, one.job_id)
    assert (ended.state, ended.reason, ended.reason_text) == ("cancelled", "cancelled", "cancelled by an operator")
    three, spawning = running(database)
    spawning.spawn("t")
    spawning.finalize_with(lambda session: say(session, "waiting"))
    assert finish(database, three, spawning)
    assert row(database, three.job_id).state == "waiting"
    four, late = running(database)
    late.finalize_with(lambda session: say(session, "late"))
    assert end(database, four.fence) is not None
    assert not finish(database, four, late)
    assert words(engine) == ["waiting"]


def test_what_it_enqueues_is_written_with_it(database: Database) -> None:
    one, job = running(database)
    found: list[int] = []
    job.finalize_with(lambda session: found.append(sqljobs.enqueue(session, "t", after=[one.job_id])))
    assert finish(database, one, job, DONE)
    assert states(database, [one.job_id, *found]) == ["done", "ready"] or states(database, found) == ["blocked"]


def test_finalize_with_takes_plain_functions(database: Database) -> None:
    _, job = running(database)

    async def later(_session: Session) -> None:
        return None

    for wrong in (later, None, "x"):
        with pytest.raises(InvalidJob, match="a plain function"):
            job.finalize_with(wrong)  # type: ignore[arg-type]
