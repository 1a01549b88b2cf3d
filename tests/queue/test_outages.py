"""A server that goes away under load, for a while and for longer than every lease: all goes on."""

import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stress.servers import Server
from tests.queue.conftest import Queue, Supervisors, full_size
from tests.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql", "mariadb", "mysql")
PATIENT = ["--heartbeat", "0.5", "--ttl", "60", "--deadline", "50", "--kill-grace", "1"]
TTL = 4.0
HASTY = ["--heartbeat", "0.5", "--ttl", str(TTL), "--deadline", "2", "--kill-grace", "1"]


def load(queue: Queue) -> list[int]:
    """Jobs that start, run and end all the time."""
    return [queue.enqueue("nap", {"seconds": 0.2}) for _ in range(full_size(12, 100))]


def stop_politely(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def test_outage_within_the_deadline(queue: Queue, supervisors: Supervisors, server: Server, tmp_path: Path) -> None:
    """A crash and a restart: no attempt is lost, and nothing runs twice."""
    gate = tmp_path / "gate"
    held = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
    ids = load(queue)
    process = supervisors.start(*PATIENT, "--on-lease-lost", "kill", slots=3)
    queue.wait_for_notes(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.wait, held, *ids)  # it bears the outage, too
        wait_until(lambda: queue.job(ids[0]).state == "done", what="the load to be under way")
        server.restart(immediate=True)
        gate.touch()
        infos = waiting.result(timeout=180)
    assert {info.state for info in infos} == {"done"}
    assert [attempt.cause for attempt in infos[0].attempts] == ["done"]
    stop_politely(process)


@pytest.mark.databases(*full_size(("postgresql",), ("postgresql", "mariadb", "mysql")))
@pytest.mark.parametrize("policy", ["keep", "kill"])
def test_outage_of_two_leases(
    queue: Queue,
    supervisors: Supervisors,
    server: Server,
    tmp_path: Path,
    is_alive: Callable[[int], bool],
    policy: str,
) -> None:
    """`keep`: the same attempt goes on and is accepted. `kill`: its child is dead by the deadline, and not charged."""
    gate = tmp_path / "gate"
    held = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)}, max_attempts=1)
    process = supervisors.start(*HASTY, "--on-lease-lost", policy, slots=3)
    ((_, _, _, pid, _),) = queue.wait_for_notes(1)
    ids = load(queue)
    server.stop("immediate")
    over = time.monotonic() + 2 * TTL
    if policy == "kill":
        wait_until(lambda: not is_alive(pid), what="the child to be killed")
        said = '"why": "lease_lost", "signal": "SIGTERM", "event": "stopping attempt"'
        wait_until(lambda: said in supervisors.log(), what="the log, which is written after the signal is sent")
    wait_until(lambda: time.monotonic() > over, what="two leases to be over")
    assert is_alive(pid) == (policy == "keep")
    assert process.poll() is None
    server.start()
    queue.engine.dispose()
    gate.touch()
    infos = queue.wait(held, *ids)
    assert {info.state for info in infos} == {"done"}
    causes = [attempt.cause for attempt in infos[0].attempts]
    assert causes == (["done"] if policy == "keep" else ["lease_lost", "done"])
    stop_politely(process)
    log = supervisors.log()
    assert log.count("the database cannot be used") <= 2
    assert "the database is back" in log
