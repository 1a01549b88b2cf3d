"""Children and supervisors killed at random under load: each job ends once, each attempt's row tells."""

import contextlib
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import sqljobs
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.waiting import wait_until

CAUSES = {"done", "signal", "lost", "interrupted"}


@usually_on("sqlite", "mysql")
def test_random_kills(queue: Queue, supervisors: Supervisors) -> None:
    rng = random.Random(20261130)
    count, child_kills, supervisor_kills = full_size(100, 1000), full_size(6, 20), full_size(1, 3)
    ids = queue.enqueue_many([sqljobs.JobSpec("effect", {"side": str(queue.side)}) for _ in range(count)])
    names = {supervisors.start("--until-idle", "--name", name, slots=4): name for name in ("s1", "s2")}

    def past_their_effects() -> list[tuple[int, int, int]]:
        return [(pid, job, attempt) for _, job, attempt, pid, _ in queue.notes()[-8:] if supervisor_of(pid)]

    def kill_a_child() -> str:
        """Kill one that is past its effect; returns how its attempt ended. One that was about to end may be faster."""
        pid, job, attempt = rng.choice(wait_until(past_their_effects, what="a child past its effect"))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return wait_until(lambda: queue.job(job).attempts[attempt - 1].cause, what="the end to be written") or ""

    def kill_a_supervisor() -> None:
        """Kill one that has a child past its effect, and start it again."""

        def parent() -> subprocess.Popen[bytes] | None:
            parents = {supervisor_of(pid) for pid, *_ in past_their_effects()}
            return next((process for process in names if process.pid in parents), None)

        process = wait_until(parent, what="a supervisor whose child is past its effect")
        assert process is not None
        process.kill()
        process.wait()
        name = names.pop(process)
        names[supervisors.start("--until-idle", "--name", name, slots=4)] = name

    between = child_kills // supervisor_kills
    for number in range(child_kills):
        if number in range(0, between * supervisor_kills, between):
            kill_a_supervisor()
        while kill_a_child() != "signal":
            continue
    running = list(names)
    for process in running:
        assert process.wait(timeout=300) == 0
    infos = queue.wait(*ids)
    assert Counter(info.state for info in infos) == {"done": count}
    causes = Counter(attempt.cause for info in infos for attempt in info.attempts)
    print(f"causes {dict(causes)}, starts {len(queue.notes())}")
    assert set(causes) <= CAUSES
    assert causes["done"] == count
    assert causes["signal"] >= child_kills
    assert causes["lost"] >= supervisor_kills
    assert all(attempt.cause == "done" for info in infos for attempt in info.attempts[-1:])
    recorded = {(info.id, attempt.attempt) for info in infos for attempt in info.attempts}
    assert {(job, attempt) for _, job, attempt, _, _ in queue.notes()} <= recorded
    assert sqljobs.doctor(queue.engine) == []
    assert not any(supervisor_of(pid) for *_, pid, _ in queue.notes())


def supervisor_of(pid: int) -> int:
    """The parent of this process, if it is alive and runs a job; else 0."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    is_child = ") Z " not in status and b"sqljobs.supervisor" in command
    return int(status.rpartition(")")[2].split()[1]) if is_child else 0
