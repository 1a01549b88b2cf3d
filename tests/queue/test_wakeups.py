"""How soon an idle supervisor sees what there is to do, when no poll and no heartbeat is near."""

import json
import subprocess
from typing import Any

import pytest
from sqlalchemy import text

import sqljobs
from sqljobs.schema.status import read_status
from sqljobs.schema.transactions import Database
from stress.servers import Server
from tests.queue.conftest import Queue, Supervisors, usually_on
from tests.waiting import wait_until

# Nothing but a wake-up makes a turn while a test waits: it waits for less than half of all this.
FAR_AWAY = ["--poll", "300s-300s", "--heartbeat", "300s", "--ttl", "1000s", "--deadline", "600s"]
SOON = 100
LISTENERS = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"


def status(queue: Queue) -> dict[str, Any]:
    return Database.of(queue.engine).read("status", read_status)


def until_listening(queue: Queue) -> None:
    wait_until(lambda: status(queue)["wakeup"] == "listen", what="a supervisor that listens", timeout=SOON)


def listeners(queue: Queue) -> list[int]:
    """The sessions that listen."""
    with queue.engine.connect() as conn:
        return list(conn.execute(text(f"SELECT pid {LISTENERS}")).scalars())


def others(queue: Queue) -> int:
    """How many sessions there are but this one."""
    statement = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
    with queue.engine.connect() as conn:
        return int(conn.execute(text(statement)).scalar_one())


def runs(queue: Queue, *ids: int) -> None:
    """These jobs end well, and soon."""
    infos = sqljobs.wait(queue.engine, *ids, timeout=SOON)
    assert {info.state for info in infos} == {"done"}


@pytest.mark.databases("postgresql")
def test_jobs_wake_an_idle_supervisor_and_children_leave_its_session_alone(
    queue: Queue, supervisors: Supervisors
) -> None:
    supervisors.start(*FAR_AWAY, slots=2)
    until_listening(queue)
    before = listeners(queue)
    assert len(before) == 1
    side = {"side": str(queue.side)}
    for _ in range(3):
        first = sqljobs.JobSpec("quick", side)
        runs(queue, *queue.enqueue_many([first, sqljobs.JobSpec("after_all", side, after=[first])]))
    failed = queue.enqueue("ends", {"how": "fail"})
    assert sqljobs.wait(queue.engine, failed, timeout=SOON)[0].state == "failed"
    with queue.engine.begin() as conn:
        sqljobs.retry(conn, failed)
    runs(queue, failed)
    assert listeners(queue) == before
    wait_until(lambda: others(queue) <= 2, what="a session of the loop and one that listens, no more")
    (shown,) = status(queue)["supervisors"]
    assert shown["wakeup"] == "listen"


@pytest.mark.databases("postgresql")
def test_a_killed_session_and_a_restarted_server_lose_no_job(
    queue: Queue, supervisors: Supervisors, server: Server
) -> None:
    process = supervisors.start(*FAR_AWAY)
    until_listening(queue)
    for _ in range(2):
        with queue.engine.connect() as conn:
            assert list(conn.execute(text(f"SELECT pg_terminate_backend(pid) {LISTENERS}")).scalars()) == [True]
        runs(queue, queue.enqueue("quick", {"side": str(queue.side)}))
        wait_until(lambda: status(queue)["wakeup"] == "listen", what="listening again", timeout=SOON)
    queue.engine.dispose()
    server.restart(immediate=True)
    runs(queue, queue.enqueue("quick", {"side": str(queue.side)}))
    until_listening(queue)
    runs(queue, queue.enqueue("quick", {"side": str(queue.side)}))
    assert process.poll() is None


@pytest.mark.databases("postgresql")
def test_behind_a_pooler_jobs_run_by_polling_which_is_said_once(
    queue: Queue, supervisors: Supervisors, pooled_url: str
) -> None:
    supervisors.url = pooled_url
    supervisors.start()
    pooled = sqljobs.create_engine(pooled_url)
    with pooled.begin() as conn:
        ids = [sqljobs.enqueue(conn, "quick", {"side": str(queue.side)}) for _ in range(10)]
    assert {info.state for info in sqljobs.wait(pooled, *ids, timeout=SOON)} == {"done"}
    pooled.dispose()
    said = [line for line in map(json.loads, supervisors.log().splitlines()) if "cannot be notified" in line["event"]]
    assert [line["why"] for line in said] == [
        "a connection pooler stands between, which does not pass notifications on"
    ]
    found = status(queue)
    assert (found["wakeup"], found["supervisors"][0]["wakeup"]) == ("poll", "poll")


@pytest.mark.databases("sqlite")
def test_a_commit_to_the_file_wakes_an_idle_supervisor(queue: Queue, supervisors: Supervisors) -> None:
    supervisors.start(*FAR_AWAY)
    for _ in range(3):  # the first may be found by the first turn, the second by the turn after its child's end
        runs(queue, queue.enqueue("quick", {"side": str(queue.side)}))
        wait_until(lambda: supervisors.log().count("attempt ended") == len(queue.notes()), what="the end to be reaped")


@usually_on("sqlite", "postgresql")
def test_a_job_starts_when_its_time_has_come(queue: Queue, supervisors: Supervisors) -> None:
    later = queue.enqueue("quick", {"side": str(queue.side)}, run_after=1.5)
    retried = queue.enqueue("ends", {"how": "raise"})
    process: subprocess.Popen[bytes] = supervisors.start(*FAR_AWAY)
    runs(queue, later, retried)
    assert process.poll() is None
