"""A lock that another part of the parent holds at the moment of the fork: the child waits for it for ever."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.queue.conftest import Queue

pytestmark = pytest.mark.databases("sqlite")

HANDLERS = """
import os, threading, sqljobs
lock = threading.Lock()

def at_fork():
    with lock:
        pass

os.register_at_fork(after_in_child=at_fork)

@sqljobs.handler(max_attempts=1)
def needs_it() -> str:
    return "well"
"""
HOST = """
import sys, threading
import sqljobs
from sqljobs.supervisor import attempts
supervisor = sqljobs.Supervisor(sys.argv[1], sys.argv[2], heartbeat=0.3, ttl=3, deadline=1.5, kill_grace=0.5, slots=1)
usual, attempts.HANDLER_REACHED_WITHIN = attempts.HANDLER_REACHED_WITHIN, 1.0
lock = sys.modules["planted"].lock
lock.acquire()
while "done" not in supervisor.endings:
    supervisor.tick()
    if supervisor.endings and lock.locked():
        lock.release()
        attempts.HANDLER_REACHED_WITHIN = usual
    threading.Event().wait(0.02)
supervisor.stop()
print(usual)
"""


def test_the_child_is_replaced_and_no_attempt_is_used(queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(HANDLERS)
    job_id = queue.enqueue("needs_it")
    url = queue.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-W", "error", "-c", HOST, url, str(tmp_path / "planted.py")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (result.returncode, result.stdout) == (0, "30.0\n"), result.stderr
    job = queue.job(job_id)
    *replaced, last = job.attempts  # the turn that ends the first starts the next, before the lock is free
    assert (job.state, job.result, job.max_attempts) == ("done", "well", 1 + len(replaced))
    assert (last.cause, len(replaced) in (1, 2)) == ("done", True)
    for attempt in replaced:
        assert (attempt.cause, attempt.signal) == ("interrupted", "SIGKILL")
        assert attempt.error == "stopped: its handler did not start in time (killed by SIGKILL)"
