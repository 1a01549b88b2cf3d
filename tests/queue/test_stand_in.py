"""run() in a program that has threads of its own: a fresh process is the supervisor."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

import sqljobs
from sqljobs.schema.control_tables import job_supervisors
from tests.queue.conftest import HANDLERS, Queue
from tests.waiting import wait_until

pytestmark = pytest.mark.databases("sqlite")

HOST = """
import datetime, os, sys, threading
import sqljobs
url, handlers, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
def wait():
    sys.stdin.readline()
    supervisor.stop()
threading.Thread(target=wait, name="the-hosts-own", daemon=True).start()
supervisor = sqljobs.Supervisor(url, handlers, heartbeat=datetime.timedelta(seconds=0.3), ttl=3, deadline="1.5s",
                                kill_grace=1, slots=2, only_type=("hold", "quick"), **options)
os.chdir("/")
code = supervisor.run()
print(code, dict(supervisor.endings), flush=True)
os._exit(code)
"""
Host = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def host(queue: Queue) -> Iterator[Host]:
    """Starts a program with a thread, which runs a supervisor; `stop` is called when its stdin is closed."""
    url = queue.engine.url.render_as_string(hide_password=False)
    started = []

    def start(options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-W", "error", "-c", HOST, url, str(HANDLERS), options]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        with process:  # closes its streams, and waits
            process.kill()


def end_of(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Its exit code, and what it has printed."""
    assert process.stdout is not None
    text = process.stdout.read()
    return process.wait(timeout=60), text


def supervisor_pid(queue: Queue) -> int:
    def pid() -> int:
        with queue.engine.connect() as conn:
            return conn.scalar(select(job_supervisors.c.pid)) or 0

    return wait_until(pid, what="a supervisor", timeout=60)


def test_a_fresh_process_is_the_supervisor(queue: Queue, host: Host) -> None:
    queue.enqueue("quick", {"side": str(queue.side)})
    process = host("{'until_idle': True}")
    assert end_of(process) == (0, "0 {'done': 1}\n")
    assert supervisor_pid(queue) != process.pid


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (0, 0)], ids=["SIGTERM", "SIGINT", "stop"]
)
def test_it_is_told_what_the_host_is_told(number: int, code: int, queue: Queue, host: Host, tmp_path: Path) -> None:
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(tmp_path / "never")})
    process = host("{'grace': 0.2}")
    queue.wait_for_notes(1)
    if number:
        process.send_signal(number)
    else:
        assert process.stdin is not None
        process.stdin.close()
    assert end_of(process) == (code, f"{code} {{'interrupted': 1}}\n")
    assert (queue.job(job_id).state, queue.job(job_id).max_attempts) == ("ready", 6)


def test_it_dies_with_the_host(queue: Queue, host: Host, tmp_path: Path, is_alive: Callable[[int], bool]) -> None:
    queue.enqueue("hold", {"side": str(queue.side), "until": str(tmp_path / "never")})
    process = host("{}")
    ((_, _, _, job_pid, _),) = queue.wait_for_notes(1)
    pid = supervisor_pid(queue)
    process.kill()
    wait_until(
        lambda: not is_alive(pid) and not is_alive(job_pid), what="the end of the supervisor and its job", timeout=60
    )


def test_where_nothing_is_forked_threads_do_no_harm(queue: Queue, host: Host) -> None:
    queue.enqueue("quick", {"side": str(queue.side)})
    process = host("{'until_idle': True, 'start_method': 'spawn'}")
    assert end_of(process) == (0, "0 {'done': 1}\n")
    assert supervisor_pid(queue) == process.pid


def test_what_cannot_be_passed_on_is_refused(queue: Queue) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="the-hosts-own")
    thread.start()
    try:
        supervisor = sqljobs.Supervisor(queue.engine, str(HANDLERS), slots=1)
        with pytest.raises(
            sqljobs.Error, match=r"\(the-hosts-own\), and a fresh process cannot be given an Engine: give"
        ):
            supervisor.run()
        with pytest.raises(sqljobs.Error, match=r"a fork is refused while other threads run \(the-hosts-own\): give"):
            supervisor.tick()
    finally:
        over.set()
        thread.join()
