"""A supervisor in a host program's own loop: what the host has, or becomes, must harm neither it nor the jobs."""

import os
import threading
from pathlib import Path

import pytest
from sqlalchemy import select

import sqljobs
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.supervisor.liveness import own_process
from sqljobs.supervisor.registration import is_over
from tests.queue.conftest import HANDLERS, Queue
from tests.waiting import wait_until

pytestmark = pytest.mark.databases("sqlite", "postgresql")


def embedded(queue: Queue) -> sqljobs.Supervisor:
    return sqljobs.Supervisor(queue.engine.url.render_as_string(hide_password=False), str(HANDLERS), slots=1)


def test_while_the_host_has_threads_nothing_is_claimed(queue: Queue, capfd: pytest.CaptureFixture[str]) -> None:
    """A child would not have them, nor what they had locked; when they are gone, it goes on. One that would begin so
    is refused (test_stand_in.py)."""
    supervisor = embedded(queue)
    supervisor.tick()
    job_id = queue.enqueue("asynchronous", {"number": 1})
    queue.engine.dispose()
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="the-hosts-own")
    thread.start()
    for _ in range(3):
        supervisor.tick()
    assert (queue.job(job_id).state, queue.job(job_id).attempts) == ("ready", ())
    queue.engine.dispose()
    assert "the-hosts-own" in capfd.readouterr().err
    over.set()
    thread.join()

    def is_done() -> bool:
        supervisor.tick()
        done = queue.job(job_id).state == "done"
        queue.engine.dispose()
        return done

    wait_until(is_done, what="the job to run after all")
    supervisor.stop()


def test_a_program_that_has_become_another_is_over(queue: Queue) -> None:
    """After an exec the process is the same, and the start of a supervisor in it is not."""
    supervisor = embedded(queue)
    supervisor.tick()
    own = own_process()
    (row,) = [one for one in queue_supervisors(queue) if one[1] == os.getpid()]
    assert not is_over(row[0], own.pid, own.start_ticks)
    assert is_over("f" * 32, own.pid, own.start_ticks)
    assert is_over(row[0], own.pid, own.start_ticks + 1)
    supervisor.stop()


def queue_supervisors(queue: Queue) -> list[tuple[str, int]]:
    with queue.engine.connect() as conn:
        found = [tuple(row) for row in conn.execute(select(job_supervisors.c.id, job_supervisors.c.pid))]
    queue.engine.dispose()
    return found


@pytest.mark.databases("sqlite")
def test_a_file_that_is_taken_away_is_not_made_anew(queue: Queue, tmp_path: Path) -> None:
    supervisor = embedded(queue)
    supervisor.tick()
    queue.engine.dispose()
    file = Path(str(queue.engine.url.database))
    aside = tmp_path / "aside.db"
    file.rename(aside)
    supervisor.tick()
    assert not file.exists()
    aside.rename(file)
    supervisor.stop()
