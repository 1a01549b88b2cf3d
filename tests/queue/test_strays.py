"""What jobs leave behind is killed, whatever it does: real supervisors, real forks. How it is found: decision 10."""

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from sqljobs.schema.tables import job_attempts
from sqljobs.supervisor.sightings import Process, sightings
from tests.queue.conftest import Queue, Supervisors, full_size
from tests.queue.straying_handlers import KINDS, WAYS
from tests.waiting import wait_until

STRAYING = Path(__file__).with_name("straying_handlers.py")
pytestmark = pytest.mark.databases("sqlite")


def living_in(folder: Path) -> set[int]:
    """The living processes whose current directory is `folder`: the supervisors of the test, and all they started."""
    found = set()
    for one in sightings():
        try:
            if one.is_alive and os.readlink(f"/proc/{one.process.pid}/cwd") == str(folder):
                found.add(one.process.pid)
        except (FileNotFoundError, PermissionError):  # it ended meanwhile, or is none of ours
            continue
    return found


def noted(side: Path) -> dict[tuple[str, str], int]:
    """What has noted itself: (kind, way) -> pid."""
    lines = [line.split() for line in side.read_text().splitlines()] if side.exists() else []
    return {(kind, way): int(pid) for kind, way, pid in lines}


def test_nothing_of_a_job_over_its_timeout_lives(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    every = [(kind, way) for kind in KINDS for way in WAYS]
    ids = []
    for kind, way in every:
        arguments = {"side": str(queue.side), "kind": kind, "way": way, "deaf": kind in ("plain", "setsid")}
        ids.append(queue.enqueue("hangs_with", arguments))
    process = supervisors.start(handlers=STRAYING, slots=len(every))
    assert {info.attempts[0].cause for info in queue.wait(*ids)} == {"timeout"}
    assert set(noted(queue.side)) == set(every)
    # Recorded only when the tree is gone; what cannot be told apart is gone with the last of those that ran with it.
    wait_until(lambda: living_in(tmp_path) == {process.pid}, what="the end of all strays")


@pytest.mark.parametrize("job", ["ends_with", "dies_with"])
def test_nothing_of_a_job_that_has_ended_lives(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, job: str
) -> None:
    every = [(kind, way) for kind in KINDS for way in WAYS]
    ids = [queue.enqueue(job, {"side": str(queue.side), "kind": kind, "way": way}) for kind, way in every]
    process = supervisors.start(handlers=STRAYING, slots=3)
    wanted = "done" if job == "ends_with" else "signal"
    assert {info.attempts[0].cause for info in queue.wait(*ids)} == {wanted}
    assert set(noted(queue.side)) == set(every)
    wait_until(lambda: living_in(tmp_path) == {process.pid}, what="the end of all strays")
    assert "killed what was left behind" in supervisors.log()


def test_the_family_of_a_job_that_goes_on_is_left_alone(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, is_alive: Callable[[int], bool]
) -> None:
    gate = tmp_path / "gate"
    arguments = {"side": str(queue.side), "gate": str(gate)}
    staying = [queue.enqueue("stays_with", {**arguments, "kind": kind, "way": "fork"}) for kind in KINDS]
    staying.append(queue.enqueue("stays_with", {**arguments, "kind": "double", "way": "bare"}))
    process = supervisors.start(handlers=STRAYING, slots=6)
    wait_until(lambda: len(noted(queue.side)) == len(staying), what="the grandchildren")
    with queue.engine.connect() as conn:
        recorded = conn.execute(select(job_attempts.c.pid, job_attempts.c.start_ticks)).all()
    assert {Process(*row) for row in recorded} <= {one.process for one in sightings()}
    for _ in range(3):
        other = queue.side.with_name("other")
        ended = queue.enqueue("ends_with", {"side": str(other), "kind": "setsid", "way": "fork"})
        queue.wait(ended)
        wait_until(lambda: not is_alive(noted(other)[("setsid", "fork")]), what="the end of the stray")  # noqa: B023
        other.unlink()
    assert all(is_alive(pid) for pid in noted(queue.side).values())
    gate.touch()
    assert {info.state for info in queue.wait(*staying)} == {"done"}
    wait_until(lambda: living_in(tmp_path) == {process.pid}, what="the end of all strays")


def test_strays_that_go_on_forking(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    job_id = queue.enqueue("leaves_a_bomb", {"side": str(queue.side)})
    process = supervisors.start(handlers=STRAYING)
    queue.wait(job_id)
    wait_until(lambda: living_in(tmp_path) == {process.pid}, what="the end of all strays")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0


def test_a_daemon_that_ends_is_waited_for(queue: Queue, supervisors: Supervisors) -> None:
    job_id = queue.enqueue("leaves_a_zombie", {"side": str(queue.side)})
    supervisors.start(handlers=STRAYING)
    wait_until(lambda: ("zombie", "fork") in noted(queue.side), what="the daemon")
    pid = noted(queue.side)[("zombie", "fork")]
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the daemon to be reaped", timeout=60)
    queue.wait(job_id)


def test_programs_that_a_job_calls_are_not_disturbed(queue: Queue, supervisors: Supervisors) -> None:
    ids = [queue.enqueue("calls_a_program") for _ in range(8)]
    supervisors.run_until_idle(handlers=STRAYING)
    assert [queue.job(job_id).result for job_id in ids] == ["hello"] * 8


def test_memory_and_descriptors_of_the_supervisor_stay_flat(queue: Queue, supervisors: Supervisors) -> None:
    process = supervisors.start(handlers=STRAYING)

    def measure() -> tuple[int, int]:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]), len(os.listdir(f"/proc/{process.pid}/fd"))

    seen = []
    for _ in range(full_size(4, 40)):
        strays = {"side": str(queue.side), "kind": "setsid", "way": "fork"}
        ids = [queue.enqueue("ends_with", strays) for _ in range(full_size(3, 10))]
        ids += [queue.enqueue("calls_a_program") for _ in range(full_size(5, 10))]
        queue.wait(*ids)
        seen.append(measure())
    kilobytes, descriptors = zip(*seen[1:], strict=True)
    assert max(descriptors) - min(descriptors) <= 12  # the reports, pidfds and dumps of children that come and go
    assert statistics.median(kilobytes[-2:]) - kilobytes[0] < 4_000
    assert [json.loads(line)["event"] for line in supervisors.log().splitlines()].count("attempt ended") >= 25


EMBEDDED = """
import subprocess, sys, time
import sqljobs

url, handlers = sys.argv[1:]
supervisor = sqljobs.Supervisor(url, handlers, slots=2, name="embedded")
own = []
deadline = time.monotonic() + 60
while sum(supervisor.endings.values()) < 2 and time.monotonic() < deadline:
    if len(own) < 3:  # before the first job and beside it; in another session, and in ours
        command = ["/bin/sh", "-c", "sleep 600 & sleep 600"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        own.append(subprocess.Popen(command, start_new_session=len(own) != 1, **quiet))
    supervisor.tick()
    time.sleep(0.02)
supervisor.stop()
print(dict(supervisor.endings), [process.poll() for process in own])
for process in own:
    process.kill()
"""


def test_embedded_the_host_programs_own_processes_are_left_alone(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, is_alive: Callable[[int], bool]
) -> None:
    for way in ("fork", "exec"):
        queue.enqueue("ends_with", {"side": str(queue.side), "kind": "double", "way": way})
    command = [sys.executable, "-c", EMBEDDED, supervisors.url, str(STRAYING)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
        assert ended.stdout == "{'done': 2} [None, None, None]\n", ended.stderr
        assert not any(is_alive(pid) for pid in noted(queue.side).values())
        assert living_in(tmp_path), "the grandchildren of the host program"
    finally:
        for pid in living_in(tmp_path):
            os.kill(pid, signal.SIGKILL)
