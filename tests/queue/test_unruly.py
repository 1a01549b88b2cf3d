"""Faults that were found by trying to break it: each holds the right value now."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

import sqljobs
from tests.queue.conftest import Queue, Supervisors
from tests.waiting import wait_until

UNRULY = Path(__file__).with_name("unruly_handlers.py")


@pytest.mark.databases("sqlite", "postgresql")
def test_a_forked_copy_of_the_handler_does_not_end_its_attempt(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    job_id = queue.enqueue("forks_a_copy", {"gate": str(gate)})
    supervisors.start(handlers=UNRULY)
    wait_until(lambda: queue.job(job_id).state == "running", what="the job to run", timeout=60)
    second = queue.enqueue("breaks_stdout")
    queue.wait(second)
    assert queue.job(job_id).state == "running"
    gate.touch()
    (info,) = queue.wait(job_id)
    assert (info.state, info.result) == ("done", "job")


@pytest.mark.databases("sqlite")
def test_a_connection_that_the_handlers_module_keeps_open_is_refused(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    file = queue.engine.url.database
    handlers = tmp_path / "keeping.py"
    handlers.write_text(
        f"import sqlite3, sqljobs\nkept = sqlite3.connect({file!r})\n"
        "kept.execute('SELECT count(*) FROM jobs').fetchall()\n"
        "@sqljobs.handler\ndef job(): ...\n"
    )
    command = [sys.executable, "-m", "sqljobs.supervisor", "--url", supervisors.url, "run", "--handlers", str(handlers)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert "which no child can share" in ended.stderr
    assert sqlite3.connect(str(file)).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.databases("postgresql", "mysql", "mariadb")
def test_a_job_enqueued_around_the_retry_of_its_upstream_runs(queue: Queue, supervisors: Supervisors) -> None:
    upstream = queue.enqueue("ends", {"how": "fail"}, max_attempts=1)
    supervisors.run_until_idle()
    with Session(queue.engine) as session, session.begin():
        late = sqljobs.enqueue(session, "asynchronous", {"number": 1}, after=[upstream], key="late")
        twin = sqljobs.enqueue(session, "asynchronous", {"number": 2}, after=[upstream], key="late")
        with Session(queue.engine) as other, other.begin():
            assert sqljobs.retry(other, upstream) == [upstream]
    supervisors.run_until_idle()
    # The second attempt of `ends` goes well; of two with one key the first is opened again.
    assert [queue.job(job_id).state for job_id in (upstream, late, twin)] == ["done", "done", "cancelled"]


@pytest.mark.databases("sqlite", "postgresql")
def test_retry_of_two_with_one_key_is_refused_by_name(queue: Queue) -> None:
    with queue.engine.begin() as conn:
        first = sqljobs.enqueue(conn, "t", key="K")
        sqljobs.cancel(conn, first)
        second = sqljobs.enqueue(conn, "t", key="K")
        sqljobs.cancel(conn, second)
    with queue.engine.begin() as conn, pytest.raises(sqljobs.Refused, match=f"jobs {first} and {second} have one key"):
        sqljobs.retry(conn, first, second)
    with queue.engine.begin() as conn:
        assert sqljobs.retry(conn, second) == [second]


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("wrong", [True, "1", 1.0])
def test_ids_that_are_none_are_refused_before_the_database_sees_them(queue: Queue, wrong: Any) -> None:
    with queue.engine.begin() as conn:
        for call in (sqljobs.get_job, sqljobs.cancel, sqljobs.retry):
            with pytest.raises(sqljobs.InvalidJob, match="a job id is a whole number"):
                call(conn, wrong)
            with pytest.raises(sqljobs.UnknownJob):
                call(conn, 2**70)
    with pytest.raises(sqljobs.InvalidJob):
        sqljobs.wait(queue.engine, wrong)
