"""Jobs that outlast their leases many times, supervisors that are paused, clocks that jump: one start, one end."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

import sqljobs
from sqljobs.schema.columns import UtcTime
from sqljobs.schema.model import Model
from sqljobs.schema.transactions import Database, Transaction
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.waiting import wait_until

SHORT = ["--heartbeat", "0.2", "--ttl", "2", "--deadline", "1.2", "--kill-grace", "0.5"]
# Where an end that takes its time on a busy machine would come after the lease.
ROOMY = ["--heartbeat", "0.5", "--ttl", "8", "--deadline", "5", "--kill-grace", "0.5"]
few = pytest.mark.databases("sqlite", "postgresql")


def pause(queue: Queue, process: subprocess.Popen[bytes]) -> None:
    """Stop it, but not amid a write transaction: on SQLite nobody else could write meanwhile."""

    def is_stopped_well() -> bool:
        process.send_signal(signal.SIGSTOP)
        stopped = f"/proc/{process.pid}/stat"
        wait_until(lambda: Path(stopped).read_text().rpartition(")")[2].split()[0] == "T", what="it to be stopped")
        if can_write(queue):
            return True
        process.send_signal(signal.SIGCONT)
        return False

    wait_until(is_stopped_well, what="a moment between two transactions")


def can_write(queue: Queue) -> bool:
    if queue.engine.dialect.name != "sqlite":
        return True
    with contextlib.closing(sqlite3.connect(str(queue.engine.url.database), timeout=1)) as conn:
        try:
            conn.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True


def one_start(queue: Queue, job_id: int) -> None:
    (info,) = queue.wait(job_id)
    assert (info.state, [attempt.cause for attempt in info.attempts]) == ("done", ["done"])
    assert len([word for word, job, *_ in queue.notes() if word == "start" and job == job_id]) == 1


def renewals(queue: Queue, job_id: int, count: int) -> None:
    """Wait until the lease has been renewed so many times."""
    last = queue.job(job_id).heartbeat_at

    def moved() -> bool:
        nonlocal last
        before, last = last, queue.job(job_id).heartbeat_at
        return last != before

    for _ in range(count):
        wait_until(moved, what="a renewal")


@few
def test_a_job_that_hogs_the_interpreter_for_many_leases(queue: Queue, supervisors: Supervisors) -> None:
    """Its own process can do nothing meanwhile; the lease is its supervisor's to renew."""
    job_id = queue.enqueue("hog", {"side": str(queue.side), "seconds": full_size(6, 20)})
    for _ in range(2):
        supervisors.start(*SHORT, slots=1)
    one_start(queue, job_id)


@few
def test_a_paused_supervisor_finds_its_job_taken(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, is_alive: Callable[[int], bool]
) -> None:
    """Its child was alive all the time, and the row says one end and one result all the same."""
    gate = tmp_path / "gate"
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    first = supervisors.start(*SHORT, "--name", "first", slots=1)
    ((_, _, _, paused_pid, _),) = queue.wait_for_notes(1)
    supervisors.start(*SHORT, "--name", "second", slots=1)
    pause(queue, first)
    queue.wait_for_notes(2)
    assert is_alive(paused_pid)
    first.send_signal(signal.SIGCONT)
    wait_until(lambda: not is_alive(paused_pid), what="the first child to be killed")
    wait_until(lambda: "lease lost" in supervisors.log(0), what="the first supervisor to say so")
    gate.touch()
    (info,) = queue.wait(job_id)
    assert (info.state, info.result) == ("done", "released")
    assert [(attempt.cause, attempt.supervisor) for attempt in info.attempts] == [("lost", "first"), ("done", "second")]
    assert first.poll() is None


@few
def test_a_paused_supervisors_child_ends_by_itself(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    first = supervisors.start(*ROOMY, "--name", "first", slots=1)
    queue.wait_for_notes(1)
    supervisors.start(*ROOMY, "--name", "second", slots=1)
    pause(queue, first)
    gate.touch()
    one_start(queue, job_id)
    first.send_signal(signal.SIGCONT)
    wait_until(lambda: "attempt ended" in supervisors.log(0), what="the first supervisor to reap its child")
    assert queue.job(job_id).attempts[0].exit_code == 0


@few
def test_everything_is_paused_and_goes_on(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    """As of a host that was suspended: whoever comes back first, the lease is renewed and not reclaimed."""
    gate = tmp_path / "gate"
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    both = [supervisors.start(*ROOMY, "--on-lease-lost", "keep", slots=1) for _ in range(2)]
    ((_, _, _, pid, _),) = queue.wait_for_notes(1)
    for process in (*both, None):
        os.kill(process.pid if process else pid, signal.SIGSTOP)
    lapsed = time.monotonic() + 8.5
    wait_until(lambda: time.monotonic() > lapsed, what="the lease to run out")
    for process in (None, *both):
        os.kill(process.pid if process else pid, signal.SIGCONT)
    renewals(queue, job_id, 3)
    gate.touch()
    one_start(queue, job_id)


@usually_on("sqlite", "mysql")
@pytest.mark.parametrize("minutes", [10, -10])
def test_the_databases_clock_jumps(queue: Queue, supervisors: Supervisors, tmp_path: Path, minutes: int) -> None:
    gate = tmp_path / "gate"
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    for _ in range(2):
        supervisors.start(*SHORT, slots=1)
    queue.wait_for_notes(1)
    renewals(queue, job_id, 1)
    step_clock(queue, timedelta(minutes=minutes))
    renewals(queue, job_id, 5)
    gate.touch()
    one_start(queue, job_id)


def step_clock(queue: Queue, by: timedelta) -> None:
    """All that is stored becomes older by so much: for the rows that is the same as a clock that jumps ahead."""

    def work(tx: Transaction) -> None:
        for table in Model.metadata.sorted_tables:
            times = [column for column in table.c if isinstance(column.type, UtcTime)]
            keys = list(table.primary_key)
            for row in tx.execute("rows", tx.dialect.lock(select(*keys, *times))).all():
                moved = {
                    column: value - by
                    for column, value in zip(times, row[len(keys) :], strict=True)
                    if value is not None
                }
                if moved:
                    mine = [key == value for key, value in zip(keys, row, strict=False)]
                    tx.execute("move", update(table).where(*mine).values(moved))

    Database.of(queue.engine).transaction("step_clock", work)


@usually_on("sqlite", "postgresql", "mariadb")
def test_a_caller_that_names_a_running_job_and_stays_open(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    """For longer than two leases: renewals go on, the upstream ends meanwhile, and the dependent runs afterwards.

    On SQLite the caller blocks every writer, so there the end comes after it; but nothing is lost, nor twice."""
    gate = tmp_path / "gate"
    upstream = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    for _ in range(2):
        supervisors.start(*SHORT, slots=1)
    queue.wait_for_notes(1)
    with queue.engine.begin() as conn:
        dependent = sqljobs.enqueue(conn, "quick", {"side": str(queue.side)}, after=[upstream])
        if queue.engine.dialect.name == "sqlite":
            wait_until(lambda: "stays busy" in supervisors.log(0) + supervisors.log(1), what="a writer to give up")
            gate.touch()
        else:
            renewals(queue, upstream, full_size(12, 25))
            gate.touch()
            one_start(queue, upstream)
    one_start(queue, upstream)
    one_start(queue, dependent)
