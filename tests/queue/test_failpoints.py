"""Processes killed at named steps: what was committed holds, the rest runs again, nothing twice, and soon enough."""

import signal

import pytest
from sqlalchemy import select, update

import sqljobs
from sqljobs.schema.control_tables import job_supervisors
from tests.queue.conftest import Queue, Supervisors, full_size

# Step -> the cause of the attempt under way, "" where none was recorded; the last one is an undisturbed supervisor's.
IN_THE_CHILD = {
    "child.settled": "interrupted",  # the handler was not reached
    "start.commit": "interrupted",
    "start.committed": "interrupted",
    "child.started": "interrupted",
    "finalize.begin": "signal",
    "finalize.lock": "signal",
    "finalize.attempt": "signal",
    "finalize.commit": "signal",
    "finalize.committed": "",
    "child.finalized": "",
}
IN_THE_SUPERVISOR = {
    "claim.lock": "",  # nothing was claimed
    "claim.move_claim": "",
    "claim.commit": "",
    "claim.committed": "lost",  # the attempt counts from the claim
    "attempt.fork": "lost",
    "attempt.forked": "lost",
    "renew.begin@2": "lost",
    "renew.commit@2": "lost",
    "renew.committed@2": "lost",
}
LEASES = {"heartbeat": 0.4, "ttl": 3.0, "poll": 0.5}
LONGEST = LEASES["ttl"] + 2 * LEASES["heartbeat"] + LEASES["poll"]


def options(group: str) -> list[str]:
    times = ["--heartbeat", "0.4", "--ttl", "3", "--deadline", "1.5", "--kill-grace", "1", "--poll", "0.05s-0.5s"]
    return ["--only-group", group, "--name", group, *times]


def put_one_for_each(queue: Queue, steps: dict[str, str], seconds: float) -> dict[str, int]:
    return {step: queue.enqueue("nap", {"seconds": seconds}, group=step) for step in steps}


@pytest.mark.databases("sqlite", "postgresql")
def test_child_killed_at(queue: Queue, supervisors: Supervisors) -> None:
    ids = put_one_for_each(queue, IN_THE_CHILD, 0.0)
    for step in IN_THE_CHILD:
        supervisors.start(*options(step), failpoints=f"{step}=kill", slots=1)
    for step, cause in IN_THE_CHILD.items():
        queue.wait_for_cause(ids[step], cause or "done")
    for process in supervisors.processes:
        process.kill()
        process.wait()
    supervisors.run_until_idle()
    for step, cause in IN_THE_CHILD.items():
        info = queue.job(ids[step])
        # The first supervisor may have begun more attempts, all with the same end, before it was killed.
        causes = [attempt.cause for attempt in info.attempts if attempt.cause != "lost"]
        assert (info.state, causes[0], causes[-1]) == ("done", cause or "done", "done"), step
        assert causes.count("done") == 1
    assert sqljobs.doctor(queue.engine) == []


@pytest.mark.databases("sqlite")
def test_supervisor_killed_here(queue: Queue, supervisors: Supervisors) -> None:
    """Another on the same box sees that it is dead, and need not wait."""
    kill_at_each_step(queue, supervisors, "here")


@pytest.mark.databases("postgresql")
def test_supervisor_killed_elsewhere(queue: Queue, supervisors: Supervisors) -> None:
    """From another box the lease has to be seen to run out."""
    kill_at_each_step(queue, supervisors, "elsewhere")


def kill_at_each_step(queue: Queue, supervisors: Supervisors, box: str) -> None:
    ids = put_one_for_each(queue, IN_THE_SUPERVISOR, 1.0)
    for step in IN_THE_SUPERVISOR:
        name, _, nth = step.partition("@")
        plan = f"{name}=kill" + (f"@{nth}" if nth else "")
        supervisors.start(*options(step), failpoints=plan, slots=1)
    for process in supervisors.processes:
        assert process.wait(timeout=60) == -signal.SIGKILL
    if box == "elsewhere":
        with queue.engine.begin() as conn:
            conn.execute(update(job_supervisors).values(boot_id="another"))
    supervisors.run_until_idle("--heartbeat", "0.4", "--poll", "0.05s-0.5s", slots=len(ids))
    for step, cause in IN_THE_SUPERVISOR.items():
        info = queue.job(ids[step])
        assert (info.state, [attempt.cause for attempt in info.attempts]) == (
            "done",
            [cause, "done"] if cause else ["done"],
        ), step
    assert sqljobs.doctor(queue.engine) == []
    lags = recovery_seconds(queue)
    print(f"{box}: seconds from the last renewal to the attempt's end: {sorted(lags)}; promised {LONGEST:g}")
    if box == "elsewhere" and full_size(0, 1):
        assert max(lags) <= LONGEST


def recovery_seconds(queue: Queue) -> list[float]:
    """From the last that was heard of each lost attempt, its claim at least, to its end, by the database's clock."""
    infos = [queue.job(job_id) for job_id in range(1, len(IN_THE_SUPERVISOR) + 1)]
    lost = [attempt for info in infos for attempt in info.attempts if attempt.cause == "lost"]
    with queue.engine.connect() as conn:
        columns = (job_supervisors.c.name, job_supervisors.c.heartbeat_at)
        heard = {row.name: row.heartbeat_at for row in conn.execute(select(*columns))}
    times = [(attempt.ended_at, max(attempt.claimed_at, heard[attempt.supervisor])) for attempt in lost]
    return [round((ended - last).total_seconds(), 2) for ended, last in times if ended is not None]
