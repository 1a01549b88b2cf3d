"""A supervisor that is killed: its children go with it, its strays and its jobs are the next one's on the same box."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.supervisors import read_supervisors
from sqljobs.schema.tables import job_attempts
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.children import Children
from sqljobs.worker_runtime.process_mark import Mark, carry
from tests.processes.offspring import block_every_signal_and_sleep_in_c, reported, settled
from tests.queue.conftest import Queue, Supervisors, usually_on
from tests.queue.test_strays import STRAYING, living_in, noted
from tests.waiting import wait_until

# Nobody may wait for it: a lease that outlives the test.
LONG_LEASES = ["--ttl", "3600s", "--deadline", "600s"]
Alive = Callable[[int], bool]


def start_staying(
    queue: Queue, supervisors: Supervisors, gate: Path, kind: str = "setsid", way: str = "fork"
) -> tuple[int, int]:
    """A job that waits for the gate, with a grandchild that stays; the supervisor is dead. Job id, and that pid."""
    arguments = {"side": str(queue.side), "gate": str(gate), "kind": kind, "way": way}
    job_id = queue.enqueue("stays_with", arguments)
    process = supervisors.start(*LONG_LEASES, handlers=STRAYING)
    wait_until(lambda: (kind, way) in noted(queue.side), what="the grandchild", timeout=60)
    stray = noted(queue.side)[(kind, way)]
    process.kill()
    process.wait()
    wait_until(lambda: living_in(queue.side.parent) == {stray}, what="the children to die with their parent")
    return job_id, stray


@usually_on("sqlite", "postgresql")
@pytest.mark.parametrize("way", ["fork", "exec"])
def test_the_next_start_kills_what_was_left_and_runs_the_job_again(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, way: str, is_alive: Alive
) -> None:
    gate = tmp_path / "gate"
    job_id, stray = start_staying(queue, supervisors, gate, way=way)
    assert is_alive(stray)
    gate.touch()
    supervisors.start(*LONG_LEASES, handlers=STRAYING)
    (info,) = queue.wait(job_id)
    assert (info.state, [attempt.cause for attempt in info.attempts]) == ("done", ["lost", "done"])
    assert not is_alive(stray)
    assert "taken over from a dead supervisor" in supervisors.log(1)


@pytest.mark.databases("sqlite", "postgresql")
def test_a_neighbour_that_runs_already_takes_over_within_a_heartbeat(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    neighbour = supervisors.start(*LONG_LEASES, "--name", "neighbour", "--only-group", "none", handlers=STRAYING)
    wait_until(lambda: "supervisor started" in supervisors.log(), what="the neighbour", timeout=60)
    arguments = {"side": str(queue.side), "gate": str(tmp_path / "gate"), "kind": "double", "way": "exec"}
    job_id = queue.enqueue("stays_with", arguments)
    process = supervisors.start(*LONG_LEASES, handlers=STRAYING)
    wait_until(lambda: noted(queue.side), what="the grandchild", timeout=60)
    process.kill()
    process.wait()
    queue.wait_for_cause(job_id, "lost")
    assert queue.job(job_id).state in ("scheduled", "ready")
    assert living_in(tmp_path) == {neighbour.pid}

    def states() -> list[str]:
        with Database.of(queue.engine).connection() as conn:
            rows = conn.execute(job_supervisors.select().order_by(job_supervisors.c.started_at)).all()
            conn.rollback()
        return [row.state for row in rows]

    # Written when its jobs are taken over, in a transaction of its own.
    wait_until(lambda: states() == ["running", "gone"], what="the dead one to be called gone")


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("step", ["takeover.commit", "takeover.committed"])
def test_killed_in_the_middle_of_it(queue: Queue, supervisors: Supervisors, tmp_path: Path, step: str) -> None:
    gate = tmp_path / "gate"
    job_id, _ = start_staying(queue, supervisors, gate)
    gate.touch()
    second = supervisors.start(*LONG_LEASES, handlers=STRAYING, failpoints=f"{step}=kill")
    assert second.wait(timeout=60) == -signal.SIGKILL
    supervisors.run_until_idle(*LONG_LEASES, handlers=STRAYING)
    info = queue.job(job_id)
    assert (info.state, [attempt.cause for attempt in info.attempts]) == ("done", ["lost", "done"])


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("doubt", ["another boot", "its process lives"])
def test_what_cannot_be_seen_dead_is_left_to_its_lease(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, doubt: str
) -> None:
    job_id, stray = start_staying(queue, supervisors, tmp_path / "gate")
    with queue.engine.begin() as conn:
        if doubt == "another boot":
            conn.execute(update(job_supervisors).values(boot_id="another"))
        else:
            ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
            conn.execute(update(job_attempts).values(pid=os.getpid(), start_ticks=ticks))
    supervisors.start(*LONG_LEASES, handlers=STRAYING)
    queue.wait(queue.enqueue("calls_a_program"))
    if doubt == "its process lives":
        wait_until(lambda: "left to their leases" in supervisors.log(1), what="the warning", timeout=60)
        wait_until(lambda: stray not in living_in(tmp_path), what="the end of what carries the mark")
    else:
        assert stray in living_in(tmp_path)
        os.kill(stray, signal.SIGKILL)
    assert queue.job(job_id).state == "running"


@pytest.mark.databases("sqlite")
def test_marks_of_supervisors_that_ended_well_count_too_and_those_of_strangers_do_not(
    queue: Queue, supervisors: Supervisors
) -> None:
    supervisors.run_until_idle(handlers=STRAYING)
    (gone,) = Database.of(queue.engine).read("look", read_supervisors)
    assert gone.state == "gone"
    children: Children[str] = Children()

    def marked(mark: Mark) -> Callable[[int], object]:
        def body(report_fd: int) -> None:
            carry(mark)
            block_every_signal_and_sleep_in_c(report_fd)

        return body

    left = children.spawn("left", settled(marked(Mark(7, 1, gone.id))))
    stranger = children.spawn("stranger", settled(marked(Mark(7, 1, "0" * 32))))
    try:
        for child in (left, stranger):
            reported(children, child, b"S")
        supervisors.start(handlers=STRAYING)
        queue.wait(queue.enqueue("calls_a_program"))
        (ended,) = wait_until(children.reap, what="the end of the one that was left")
        assert (ended.child, ended.signal) == (left, signal.SIGKILL)
        assert "stranger" in children
    finally:
        for child in children:
            children.signal(child, signal.SIGKILL, group=True)
        wait_until(lambda: children.reap() or not len(children), what="the end of the children")
