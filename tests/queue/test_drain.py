"""`sqljobs drain`: the supervisor that is named claims nothing more, lets its children end and leaves; others go on."""

from pathlib import Path

import pytest

from sqljobs.schema.status import read_status
from sqljobs.schema.supervisors import request_drain
from sqljobs.schema.transactions import Database
from tests.cli.calling import program
from tests.queue.conftest import Queue, Supervisors, usually_on
from tests.waiting import wait_until


def state_of(database: Database, name: str) -> str | None:
    found = database.read("status", read_status)["supervisors"]
    return next((row["state"] for row in found if row["name"] == name), None)


@usually_on("sqlite", "postgresql")
def test_drain_lets_children_end_and_claims_nothing_more(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, db_url: str
) -> None:
    database = Database.of(queue.engine)
    gate = tmp_path / "gate"
    running = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    process = supervisors.start("--name", "first", "--grace", "0.1s")
    queue.wait_for_notes(1)
    said = program("--url", db_url, "drain", "first")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"first (pid {process.pid} on ")
    wait_until(lambda: state_of(database, "first") == "draining", what="the supervisor to drain")
    assert "drain requested" in supervisors.log()
    waiting = queue.enqueue("quick", {"side": str(queue.side)})
    assert database.transaction("drain", lambda tx: request_drain(tx, "first"))[0].state == "draining"
    beat = database.read("status", read_status)["supervisors"][0]["heartbeat_age_seconds"]
    wait_until(
        lambda: database.read("status", read_status)["supervisors"][0]["heartbeat_age_seconds"] < beat,
        what="one more heartbeat",
    )
    assert [queue.job(job_id).state for job_id in (running, waiting)] == ["running", "ready"]
    assert process.poll() is None
    gate.touch()
    assert process.wait(timeout=60) == 0
    assert [queue.job(job_id).state for job_id in (running, waiting)] == ["done", "ready"]
    assert state_of(database, "first") == "gone"
    assert program("--url", db_url, "drain", "first").code == 1


@pytest.mark.databases("sqlite")
def test_only_the_one_that_is_named_drains_and_its_name_is_no_curse(queue: Queue, supervisors: Supervisors) -> None:
    database = Database.of(queue.engine)
    processes = {name: supervisors.start("--name", name) for name in ("one", "other")}
    for name in processes:
        wait_until(lambda name=name: state_of(database, name) == "running", what=f"{name} to run")  # type: ignore[misc]
    database.transaction("drain", lambda tx: request_drain(tx, "one"))
    assert processes["one"].wait(timeout=60) == 0
    supervisors.start("--name", "one")

    def runs_again() -> bool:
        found = database.read("status", read_status)["supervisors"]
        return [row["state"] for row in found if row["name"] == "one"] == ["running", "gone"]

    wait_until(runs_again, what="its successor to run")
    (info,) = queue.wait(queue.enqueue("quick", {"side": str(queue.side)}))
    assert info.state == "done"
    assert processes["other"].poll() is None
    assert supervisors.processes[2].poll() is None
