"""A process killed at a named step of a transaction: what was committed holds, the rest runs again, nothing twice."""

import signal

import pytest

from tests.queue.conftest import Queue, Supervisors

# Step -> the causes of the attempts of the one job, the last one by an undisturbed supervisor.
IN_THE_CHILD = {
    "start.commit": ["interrupted", "done"],  # the handler was not reached
    "start.committed": ["interrupted", "done"],
    "finalize.lock": ["signal", "done"],
    "finalize.commit": ["signal", "done"],
    "finalize.committed": ["done"],
}
IN_THE_SUPERVISOR = {
    "claim.commit": ["done"],  # nothing was claimed
    "claim.committed": ["lost", "done"],  # the attempt counts from the claim
}


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("step", IN_THE_CHILD)
def test_child_killed_at(queue: Queue, supervisors: Supervisors, step: str) -> None:
    job_id = queue.enqueue("quick", {"side": str(queue.side)})
    process = supervisors.start(failpoints=f"{step}=kill", slots=1)
    causes = IN_THE_CHILD[step]
    if causes != ["done"]:
        queue.wait_for_cause(job_id, causes[0])
    process.send_signal(signal.SIGKILL)
    process.wait()
    supervisors.run_until_idle()
    (info,) = queue.wait(job_id)
    assert info.state == "done"
    # The first supervisor may have begun more attempts, all with the same end, before it was killed.
    assert [info.attempts[0].cause, info.attempts[-1].cause] == [causes[0], "done"]


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("step", IN_THE_SUPERVISOR)
def test_supervisor_killed_at(queue: Queue, supervisors: Supervisors, step: str) -> None:
    job_id = queue.enqueue("quick", {"side": str(queue.side)})
    process = supervisors.start(failpoints=f"{step}=kill", slots=1)
    assert process.wait(timeout=60) == -signal.SIGKILL
    supervisors.run_until_idle()
    (info,) = queue.wait(job_id)
    assert (info.state, [attempt.cause for attempt in info.attempts]) == ("done", IN_THE_SUPERVISOR[step])
