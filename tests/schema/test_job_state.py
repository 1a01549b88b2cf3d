"""What a job keeps over its attempts: written under the fence, once, and found by the next attempt."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.errors import InvalidJob, NoRunningJob
from sqljobs.schema.state_tables import job_checkpoints, job_steps
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.effects import fail, finish, running, say, table_of_effects, words
from tests.schema.playing import end, put, row, run, states
from tests.schema.proxy import Loss
from tests.schema.test_commit_unknown import carried_out, losing


@pytest.fixture(autouse=True)
def _effects(engine: Engine) -> Iterator[None]:
    with table_of_effects(engine):
        yield


def names(engine: Engine, job_id: int) -> list[str]:
    with engine.connect() as conn:
        statement = select(job_steps.c.name).where(job_steps.c.job_id == job_id).order_by(job_steps.c.name)
        return list(conn.execute(statement).scalars())


def test_a_checkpoint_is_found_by_the_next_attempt(database: Database) -> None:
    one, job = running(database)
    assert job.last_checkpoint is None
    for data in ({"page": 1, "big": 2**70, "text": "\u00e4\U0001f600"}, [1.0, None], "3", None, {"page": 4}):
        job.checkpoint(data)
        assert job.last_checkpoint == data
    found: Any = job.last_checkpoint
    found["page"] = 5  # of a copy
    fail(database, one, job)
    two, again = running(database, one.job_id)
    assert again.last_checkpoint == {"page": 4}
    with database.engine.connect() as conn:
        assert conn.execute(select(job_checkpoints.c.attempt)).scalar_one() == 1
    fail(database, two, again)
    assert running(database, one.job_id)[1].last_checkpoint == {"page": 4}


def test_nothing_is_kept_for_an_attempt_that_is_over(database: Database, engine: Engine) -> None:
    one, job = running(database)
    assert end(database, one.fence) is not None
    calls: list[str] = []
    with pytest.raises(NoRunningJob, match="this attempt is over"):
        job.checkpoint(1)
    with pytest.raises(NoRunningJob):
        job.step("plain", lambda: calls.append("plain"))
    with pytest.raises(NoRunningJob):
        job.step("inside", say, "inside", session=True)
    job.progress(1)
    assert (calls, names(engine, one.job_id), words(engine)) == (["plain"], [], [])
    assert row(database, one.job_id).progress_done is None


@pytest.mark.parametrize("bad", [float("nan"), object(), "\ud800", {1: 2}, "x" * (4 * 1024 * 1024)])
def test_what_is_no_json_is_refused_at_the_door(database: Database, bad: Any) -> None:
    _, job = running(database)
    job.checkpoint("kept")
    with pytest.raises(InvalidJob, match=r"^checkpoint"):
        job.checkpoint(bad)
    with pytest.raises(InvalidJob, match=r"^step 'x'"):
        job.step("x", lambda: bad)
    assert job.last_checkpoint == "kept"
    assert job.step("x", lambda: (1, 2)) == [1, 2]


@pytest.mark.parametrize("name", ["", "x" * 201, " x", "a\nb", None, 3])
def test_names_of_steps(database: Database, name: Any) -> None:
    _, job = running(database)
    with pytest.raises(InvalidJob, match="step: name"):
        job.step(name, lambda: 1)
    assert job.step("x" * 200, lambda: 1) == 1


@carried_out
def test_a_checkpoint_whose_commit_is_lost(database: Database, loss: Loss) -> None:
    one, job = running(database)
    job.checkpoint(1)
    with losing(database, {"checkpoint.commit": [loss]}) as broken:
        sqljobs.RunningJob(one, broken).checkpoint(True)
    fail(database, one, job)
    assert running(database, one.job_id)[1].last_checkpoint is True


def test_a_step_runs_once_in_a_job(database: Database, engine: Engine) -> None:
    one, job = running(database)
    calls: list[int] = []

    def counted(first: int, *, second: int) -> tuple[int, int]:
        calls.append(first)
        return first, second

    assert job.step("count", counted, 1, second=2) == [1, 2]
    assert job.step("count", counted, 3, second=4) == [1, 2]
    assert job.step("nothing", lambda: None) is None
    assert job.step("Count", counted, 5, second=6) == [5, 6]  # names are compared by bytes
    fail(database, one, job)
    two, again = running(database, one.job_id)
    assert [again.step("count", counted, 7, second=8), again.step("nothing", counted, 9, second=0)] == [[1, 2], None]
    assert calls == [1, 5]
    assert finish(database, two, again)
    other = running(database)[1]
    assert other.step("count", counted, 7, second=8) == [7, 8]
    assert names(engine, one.job_id) == ["Count", "count", "nothing"]


def test_a_step_that_raises_runs_again(database: Database, engine: Engine) -> None:
    _, job = running(database)
    with pytest.raises(ZeroDivisionError):
        job.step("x", lambda: 1 // 0)
    assert names(engine, job.id) == []
    assert job.step("x", lambda: 2) == 2


def test_a_step_may_call_others_but_not_itself(database: Database) -> None:
    _, job = running(database)
    assert job.step("outer", lambda: [job.step("inner", lambda: 1), 2]) == [1, 2]
    assert job.step("inner", lambda: 3) == 1
    with pytest.raises(InvalidJob, match="the step 'same' is running already"):
        job.step("same", lambda: job.step("same", lambda: 1))
    with pytest.raises(InvalidJob, match=r"job\.step cannot be called within the step 'wide'"):
        job.step("wide", lambda _session: job.step("narrow", lambda: 1), session=True)
    with pytest.raises(InvalidJob, match=r"job\.checkpoint cannot be called within"):
        job.step("wide", lambda _session: job.checkpoint(1), session=True)
    with pytest.raises(InvalidJob, match=r"job\.spend cannot be called within"):
        job.step("wide", lambda _session: str(job.spend("usd", 1)), session=True)


def test_coroutine_functions(database: Database) -> None:
    _, job = running(database)
    calls: list[str] = []

    async def fetch(word: str) -> str:
        calls.append(word)
        await asyncio.sleep(0)
        return word

    async def both() -> list[Any]:
        found = await asyncio.gather(job.step("a", fetch, "a"), job.step("b", fetch, "b"))
        return [*found, await job.step("a", fetch, "c")]

    assert asyncio.run(both()) == ["a", "b", "a"]
    assert sorted(calls) == ["a", "b"]
    with pytest.raises(InvalidJob, match="hand over the coroutine function itself"):
        job.step("c", lambda: fetch("c"))
    with pytest.raises(InvalidJob, match="a plain one"):
        job.step("d", fetch, "d", session=True)
    with pytest.raises(InvalidJob, match="hand over the function itself"):
        job.step("e", "word")  # type: ignore[arg-type]


def test_steps_of_several_threads(database: Database, engine: Engine) -> None:
    _, job = running(database)

    def step(number: int) -> None:
        job.step(f"s{number}", say, f"w{number}", session=True)

    threads = [threading.Thread(target=step, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(words(engine)) == [f"w{n}" for n in range(5)]
    assert len(names(engine, job.id)) == 5


def test_a_session_may_roll_back_to_its_begin(database: Database, engine: Engine) -> None:
    _, job = running(database)

    def careful(session: Session) -> str:
        say(session, "lost")
        session.rollback()
        with session.begin_nested():
            say(session, "kept")
        try:
            with session.begin_nested():
                session.execute(insert(jobs).values(id=job.id))
        except DBAPIError:
            return "survived"
        return "?"

    assert job.step("x", careful, session=True) == "survived"
    assert words(engine) == ["kept"]


@pytest.mark.parametrize("from_scratch", [False, True])
def test_retry_from_scratch_forgets(database: Database, engine: Engine, from_scratch: bool) -> None:
    one, job = running(database, put(database, max_attempts=1))
    kept, other = running(database)
    for each in (job, other):
        each.checkpoint({"at": 7})
        each.step("x", lambda: 1)
        each.progress(1, 2, "n")
    fail(database, one, job)
    with engine.begin() as conn:
        assert sqljobs.retry(conn, one.job_id, from_scratch=from_scratch, dry_run=True) == [one.job_id]
        assert sqljobs.retry(conn, one.job_id, from_scratch=from_scratch) == [one.job_id]
    found = row(database, one.job_id)
    assert (found.progress_done, found.progress_note) == ((None, None) if from_scratch else (1, "n"))
    _, again = running(database, one.job_id)
    assert again.last_checkpoint == (None if from_scratch else {"at": 7})
    assert again.step("x", lambda: 2) == (2 if from_scratch else 1)
    assert (names(engine, kept.job_id), other.last_checkpoint) == (["x"], {"at": 7})


def test_of_a_container_what_failed_in_it_forgets(database: Database, engine: Engine) -> None:
    with engine.begin() as conn:
        around = sqljobs.JobSpec("c", container=True)
        members = [sqljobs.JobSpec("t", parent=around, max_attempts=1) for _ in range(2)]
        ids = sqljobs.enqueue_many(conn, [around, *members])
    one, job = running(database, ids[1])
    two, good = running(database, ids[2])
    for each in (job, good):
        each.checkpoint("so far")
    fail(database, one, job)
    assert finish(database, two, good)
    assert states(database, ids) == ["failed", "failed", "done"]
    with engine.begin() as conn:
        sqljobs.retry(conn, ids[0], from_scratch=True)
    with engine.connect() as conn:
        assert list(conn.execute(select(job_checkpoints.c.job_id)).scalars()) == [ids[2]]
    run(database, ids[1])
    assert states(database, ids) == ["done"] * 3
