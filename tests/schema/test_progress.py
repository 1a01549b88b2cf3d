"""What running jobs say of their progress: seldom written, never the cause of a failure, the last word with the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import OperationalError

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.job_info import Progress
from sqljobs.schema.progress import SeenProgress, read_progress
from sqljobs.schema.steps import set_hook
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.effects import fail, finish, running
from tests.schema.playing import row


@contextmanager
def counted(step: str, fault: Exception | None = None) -> Iterator[list[str]]:
    """How often this step is passed; it may fail each time."""
    passed: list[str] = []

    def hook(name: str) -> None:
        if name == step:
            passed.append(name)
            if fault is not None:
                raise fault

    former = set_hook(hook)
    try:
        yield passed
    finally:
        set_hook(former)


def said(database: Database, job_id: int) -> tuple[Any, ...]:
    found = row(database, job_id)
    return found.progress_done, found.progress_total, found.progress_note


def test_few_of_many_words_are_written(database: Database) -> None:
    one, job = running(database)
    with counted("progress.write") as writes:
        for number in range(1000):
            job.progress(number, 1000, "n\x00\x1b\ud800")
    assert len(writes) < 100  # one each half a second, however slow this machine is
    assert said(database, one.job_id)[1:] == (1000, "n\\x00\\x1b\\ud800")
    assert finish(database, one, job)
    assert said(database, one.job_id)[0] == 999


def test_the_last_word_comes_with_any_end(database: Database) -> None:
    one, job = running(database)
    job.progress(1)
    job.step("x", lambda _session: job.progress(2, note="x" * 5000), session=True)  # where nothing is written
    assert said(database, one.job_id) == (1, None, None)
    fail(database, one, job)
    done, total, note = said(database, one.job_id)
    assert (done, total, note[:3]) == (2, None, "xxx")
    assert note.endswith(" bytes cut]")
    assert len(note) <= 1000


def test_what_was_written_already_is_not_written_again(database: Database, engine: Engine) -> None:
    one, job = running(database)
    job.progress(1, 2)
    with engine.begin() as conn:
        conn.execute(update(jobs).values(progress_note="by another hand"))
    assert finish(database, one, job)
    assert said(database, one.job_id) == (1, 2, "by another hand")


@pytest.mark.parametrize(
    "bad", [(float("nan"),), (float("inf"),), ("1",), (None,), (True,), (1, -float("inf")), (10**400,), (1, 2, 3)]
)
def test_bad_words_are_refused(database: Database, bad: tuple[Any, ...]) -> None:
    _, job = running(database)
    with pytest.raises(InvalidJob, match=r"^progress: "):
        job.progress(*bad)


def test_a_database_that_is_away_does_not_matter(database: Database) -> None:
    one, job = running(database)
    gone = OperationalError("UPDATE", {}, Exception("gone"), connection_invalidated=True)
    with counted("progress.begin", gone) as tries:
        for number in range(100):
            job.progress(number)
    assert 1 <= len(tries) < 20
    assert said(database, one.job_id) == (None, None, None)
    assert finish(database, one, job)
    assert said(database, one.job_id) == (99, None, None)


def test_nobody_is_waited_for(database: Database, engine: Engine) -> None:
    one, job = running(database)
    with engine.begin() as conn:
        conn.execute(update(jobs).where(jobs.c.id == one.job_id).values(priority=1))
        job.progress(1)
    assert said(database, one.job_id) == (None, None, None)
    assert finish(database, one, job)
    assert said(database, one.job_id) == (1, None, None)


def test_within_a_step_it_is_left_for_later(database: Database) -> None:
    one, job = running(database)
    job.step("x", lambda _session: job.progress(1), session=True)
    assert said(database, one.job_id) == (None, None, None)
    job.progress(2)
    assert said(database, one.job_id) == (2, None, None)


def test_the_running_ones_are_listed(database: Database) -> None:
    one, job = running(database)
    running(database)
    two, other = running(database)
    job.progress(1, 3)
    other.progress(2, None, "n")
    both = [
        SeenProgress(one.job_id, "t", Progress(1, 3, None)),
        SeenProgress(two.job_id, "t", Progress(2, None, "n")),
    ]
    assert database.read("look", read_progress) == both
    assert database.read("look", lambda tx: read_progress(tx, [two.job_id])) == both[1:]
    assert finish(database, one, job)
    assert database.read("look", read_progress) == both[1:]
