"""How attempts are brought to an end from outside: drain, shutdown, a supervisor that dies. More: test_endings.py."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sqljobs.schema.supervisors import read_supervisors
from sqljobs.schema.transactions import Database
from tests.queue.conftest import HANDLERS, QUICK_LEASES, Queue, Supervisors, usually_on
from tests.waiting import wait_until


@usually_on("sqlite", "postgresql")
def test_sigterm_lets_children_end(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    process = supervisors.start("--grace", "60s", slots=1)
    queue.wait_for_notes(1)
    waiting = queue.enqueue("quick", {"side": str(queue.side)})
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: "SIGTERM" in supervisors.log(), what="the signal in the log")
    assert process.poll() is None
    gate.touch()
    assert process.wait(timeout=30) == 0
    assert [queue.job(job_id).state for job_id in (running, waiting)] == ["done", "ready"]


@usually_on("sqlite")
def test_a_second_signal_hurries(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, is_alive: Callable[[int], bool]
) -> None:
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(tmp_path / "never")}, max_attempts=1)
    process = supervisors.start("--grace", "600s")
    queue.wait_for_notes(1)
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: "SIGTERM" in supervisors.log(), what="the signal in the log")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    info = queue.job(job_id)
    assert (info.state, info.attempt, info.max_attempts) == ("ready", 1, 2)
    assert [attempt.cause for attempt in info.attempts] == ["interrupted"]
    assert not is_alive(queue.notes()[0][3])


@usually_on("sqlite", "postgresql")
def test_ctrl_c_ends_with_130_and_usr1_waits(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    process = supervisors.start("--grace", "600s")
    queue.wait_for_notes(1)
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: "SIGUSR1" in supervisors.log(), what="the signal in the log")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "SIGINT" in supervisors.log(), what="the signal in the log")
    gate.touch()
    assert process.wait(timeout=30) == 130


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM to the group"])
def test_what_a_terminal_sends_reaches_no_child(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, how: str
) -> None:
    """A terminal signals its whole foreground group; the children end in peace all the same."""
    gate = tmp_path / "gate"
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    keyboard, terminal = os.openpty()
    process = supervisors.start("--grace", "600s", terminal=terminal)
    queue.wait_for_notes(1)
    if how == "Ctrl-C":
        os.write(keyboard, b"\x03")
    else:
        os.killpg(process.pid, signal.SIGTERM)
    wait_until(lambda: '"signal"' in supervisors.log(), what="the signal in the log")
    gate.touch()
    assert process.wait(timeout=30) == (130 if how == "Ctrl-C" else 0)
    os.close(keyboard)
    os.close(terminal)
    info = queue.job(job_id)
    assert (info.state, [attempt.cause for attempt in info.attempts]) == ("done", ["done"])


@usually_on("sqlite", "postgresql")
def test_a_killed_supervisor_takes_its_children_along_and_its_jobs_run_again(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, is_alive: Callable[[int], bool]
) -> None:
    gate = tmp_path / "gate"
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    process = supervisors.start()
    ((_, _, _, pid, _),) = queue.wait_for_notes(1)
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(pid), what="the child to die with its parent")
    gate.touch()
    supervisors.start()
    (info,) = queue.wait(job_id)
    assert (info.state, [attempt.cause for attempt in info.attempts]) == ("done", ["lost", "done"])


@pytest.mark.databases("sqlite")
def test_a_signal_while_it_leaves_does_not_keep_it_from_saying_so(queue: Queue, supervisors: Supervisors) -> None:
    process = supervisors.start(failpoints="leave.begin=stop")
    wait_until(lambda: "supervisor started" in supervisors.log(), what="its start")
    process.send_signal(signal.SIGTERM)
    wait_until(lambda: ") T " in Path(f"/proc/{process.pid}/stat").read_text(), what="it to leave, and to be stopped")
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=30) == 0
    assert "supervisor ended" in supervisors.log()
    (row,) = Database.of(queue.engine).read("x", read_supervisors)
    assert (row.state, row.is_gone) == ("gone", True)


@usually_on("sqlite")
def test_ten_restarts_use_up_no_attempt(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)}, max_attempts=3)
    for number in range(10):
        process = supervisors.start("--grace", "0s", "--kill-grace", "0.2", slots=1)
        queue.wait_for_notes(number + 1)
        process.terminate()
        assert process.wait(timeout=60) == 0
    gate.touch()
    supervisors.run_until_idle()
    info = queue.job(job_id)
    assert (info.state, info.attempt, info.max_attempts) == ("done", 11, 13)
    assert [attempt.cause for attempt in info.attempts] == ["interrupted"] * 10 + ["done"]


@pytest.mark.databases("sqlite")
def test_a_supervisor_whose_log_nobody_reads_goes_on(queue: Queue, supervisors: Supervisors) -> None:
    command = [sys.executable, "-m", "sqljobs.supervisor", "--url", supervisors.url, "run", "--handlers", str(HANDLERS)]
    process = subprocess.Popen([*command, *QUICK_LEASES], stderr=subprocess.PIPE)
    supervisors.processes.append(process)
    (supervisors.folder / "supervisor-0.log").touch()
    assert process.stderr is not None
    process.stderr.close()
    (info,) = queue.wait(queue.enqueue("ends", {"how": "raise"}))
    assert [attempt.cause for attempt in info.attempts] == ["error", "done"]
    process.terminate()
    assert process.wait(timeout=60) == 0
