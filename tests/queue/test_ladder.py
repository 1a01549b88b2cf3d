"""What people see and do of the kill ladder. What each handler makes of being stopped: test_endings.py."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sqljobs
from tests.queue.conftest import Queue, Supervisors
from tests.waiting import wait_until

LADDER = Path(__file__).with_name("ladder_handlers.py")


@pytest.mark.databases("sqlite")
def test_show_prints_the_stacks(queue: Queue, supervisors: Supervisors) -> None:
    job_id = queue.enqueue("has_threads")
    supervisors.run_until_idle(handlers=LADDER)
    command = [sys.executable, "-m", "sqljobs.supervisor", "--url", supervisors.url, "show", str(job_id)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "Stacks of attempt 1 when it was stopped" in shown
    assert shown.count("hread 0x") == 2
    assert "in stay" in shown
    assert "in has_threads" in shown


@pytest.mark.databases("sqlite")
def test_now_hurries_a_cancel_that_was_asked_for(
    queue: Queue, supervisors: Supervisors, is_alive: Callable[[int], bool]
) -> None:
    job_id = queue.enqueue("swallows", timeout=0)
    supervisors.start("--ttl", "300", "--kill-grace", "200", handlers=LADDER)
    wait_until(lambda: queue.job(job_id).state == "running", what="the job to run", timeout=60)
    for now, said in ((False, '"step": "ask"'), (True, '"step": "SIGKILL"')):
        with queue.engine.begin() as conn:
            sqljobs.cancel(conn, job_id, now=now)
        wait_until(lambda said=said: said in supervisors.log(), what=said)  # type: ignore[misc]
    (info,) = queue.wait(job_id)
    assert info.state == "cancelled"
    pid = info.attempts[0].pid
    assert pid is not None
    wait_until(lambda: not is_alive(pid), what="the end of the child")
