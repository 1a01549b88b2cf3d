"""State across attempts end to end: real supervisors, real kills, each effect once and hardly any work twice."""

import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.checkpoints import read_checkpoint
from sqljobs.schema.transactions import Database
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.schema.effects import table_of_effects, words
from tests.waiting import wait_until

HANDLERS = Path(__file__).with_name("state_handlers.py")
# Step -> the end of an attempt that is killed there.
KILLED_AT = {
    "checkpoint.commit": "signal",
    "checkpoint.committed": "signal",
    "step.write": "signal",
    "step.commit": "signal",
    "step.committed": "signal",
    "finalize.lock": "signal",  # what finalize_with was given has run
    "finalize.commit": "signal",
}


@pytest.fixture(autouse=True)
def _effects(queue: Queue) -> Iterator[None]:
    with table_of_effects(queue.engine):
        yield


def expected(job_id: int, steps: int) -> list[str]:
    return [f"{job_id} {what}" for what in (*range(steps), "end")]


@usually_on("sqlite", "postgresql")
def test_little_is_done_twice_under_kills(queue: Queue, supervisors: Supervisors) -> None:
    """60 steps under ten kills, every fifth of the supervisor: at most the step of the moment is begun again."""
    kills, steps, pieces = 10, 60, full_size(1, 10)
    rng = random.Random(6)
    args = {"side": str(queue.side), "steps": steps, "pieces": pieces, "seconds": 0.02}
    job_id = queue.enqueue("walks", args)
    supervisor = supervisors.start("--name", "one", handlers=HANDLERS)
    for number, place in enumerate(sorted(rng.sample(range(1, steps * pieces - pieces), kills))):
        last = queue.wait_for_notes(max(place, len(queue.notes()) + 1))[-1]
        if number % 5 == 4:
            supervisor.kill()
            supervisor.wait()
            supervisor = supervisors.start("--name", "one", handlers=HANDLERS)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(last[3], signal.SIGKILL)
        attempt = last[2]
        wait_until(lambda seen=attempt: queue.job(job_id).attempt > seen, what="another attempt", timeout=120)  # type: ignore[misc]
    (info,) = queue.wait(job_id)
    causes = Counter(attempt.cause for attempt in info.attempts)
    work, least = len(queue.notes()), steps * pieces
    print(f"{work} pieces of work, {least} the least ({work / least:.2f}), attempts {dict(causes)}")
    assert (info.state, causes["done"], len(info.attempts)) == ("done", 1, kills + 1)
    assert words(queue.engine) == expected(job_id, steps)
    assert info.result == expected(job_id, steps)[:-1]
    assert info.progress is not None
    assert (info.progress.done, info.progress.total) == (steps, steps)
    assert work <= least + kills * pieces
    assert work < 1.2 * least
    assert sqljobs.doctor(queue.engine) == []


@usually_on("sqlite", "postgresql")
def test_killed_between_its_writes(queue: Queue, supervisors: Supervisors) -> None:
    args = {"side": str(queue.side), "steps": 3}
    ids = {step: queue.enqueue("walks", args, group=step) for step in KILLED_AT}
    for step in KILLED_AT:
        supervisors.start("--only-group", step, failpoints=f"{step}=kill", slots=1, handlers=HANDLERS)
    for step, cause in KILLED_AT.items():
        queue.wait_for_cause(ids[step], cause)
    for process in supervisors.processes:
        process.kill()
        process.wait()
    supervisors.run_until_idle(handlers=HANDLERS)
    for step, job_id in ids.items():
        info = queue.job(job_id)
        assert (info.state, info.result) == ("done", expected(job_id, 3)[:-1]), step
    assert sorted(words(queue.engine)) == sorted(word for job_id in ids.values() for word in expected(job_id, 3))


def test_async_steps_and_another_try(queue: Queue, supervisors: Supervisors) -> None:
    job_id = queue.enqueue("fetches", {"side": str(queue.side)})
    supervisors.run_until_idle(handlers=HANDLERS)
    info = queue.job(job_id)
    assert [attempt.cause for attempt in info.attempts] == ["error", "done"], info.error
    assert info.result == [[number, 1] for number in range(3)]
    assert sorted(word for word, *_ in queue.notes()) == ["fetch-0", "fetch-1", "fetch-2"]


@usually_on("sqlite", "mariadb")
def test_progress_is_seen_while_it_runs(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    until = tmp_path / "until"
    job_id = queue.enqueue("tells", {"until": str(until), "last": 20_000})
    supervisors.start(handlers=HANDLERS)

    def said() -> bool:
        progress = queue.job(job_id).progress
        return progress is not None and progress.done == 1

    wait_until(said, what="what it says after its first word", timeout=120)
    until.touch()
    (info,) = queue.wait(job_id)
    assert info.progress is not None
    assert (info.state, info.progress.done, info.progress.total) == ("done", 20_000, 20_000)
    assert info.progress.note == "counting"
    database = Database.of(queue.engine)
    seconds = float(str(database.read("look", lambda tx: read_checkpoint(tx, job_id))))
    print(f"one call of progress takes {seconds / 20_000 * 1e6:.1f} microseconds")


@usually_on("postgresql", "mariadb")
def test_an_authors_statements_may_take_their_time(queue: Queue, supervisors: Supervisors) -> None:
    if queue.engine.dialect.name == "sqlite":
        pytest.skip("has no server that could be silent")
    job_id = queue.enqueue("sleeps_in_the_server", {"side": str(queue.side), "seconds": 2.5})
    supervisors.run_until_idle(handlers=HANDLERS)  # with its heartbeat it waits for 1 s
    info = queue.job(job_id)
    assert (info.state, info.result) == ("done", 1), info.error
    assert [word for word, *_ in queue.notes()] == ["sleep", "sleep"]


@usually_on("sqlite")
def test_retry_from_scratch(queue: Queue, supervisors: Supervisors) -> None:
    args = {"side": str(queue.side), "steps": 2}
    job_id = queue.enqueue("walks", args, max_attempts=1)
    supervisor = supervisors.start(handlers=HANDLERS, failpoints="finalize.lock=kill")
    queue.wait_for_cause(job_id, "signal")
    supervisor.kill()
    supervisor.wait()
    assert queue.job(job_id).state == "failed"
    with Session(queue.engine) as session, session.begin():
        assert sqljobs.retry(session, job_id, from_scratch=True) == [job_id]
    supervisors.run_until_idle(handlers=HANDLERS)
    assert queue.job(job_id).state == "done"
    assert words(queue.engine) == [f"{job_id} {what}" for what in (0, 1, 0, 1, "end")]
