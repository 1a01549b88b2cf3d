"""How a child comes to have its handlers: preloaded, imported after the fork, or in a fresh interpreter."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.job_info import AttemptInfo
from tests.queue.conftest import Queue, Supervisors
from tests.waiting import wait_until

pytestmark = pytest.mark.databases("sqlite")

HANDLERS = Path(__file__).with_name("start_handlers.py")
DEVICE = ["--device", "gpu=7", "--device-env", "gpu=UNIT"]
SPAWN = ["--start-method", "spawn"]
IMPORTED_BY_JOBS = pytest.mark.parametrize("flags", [["--no-preload"], SPAWN], ids=["fork", "spawn"])
FAILURE = {"job_id": 1, "type": "a", "group": "b", "cause": "c", "error": "d"}


@IMPORTED_BY_JOBS
@pytest.mark.databases("sqlite", "postgresql")
def test_a_job_imports_its_handlers_and_is_a_child_like_any_other(
    flags: list[str], queue: Queue, supervisors: Supervisors, tmp_path: Path, db_url: str
) -> None:
    """The supervisor imports nothing, and yet knows what a type uses and when it is given up."""
    good, bad = queue.enqueue("tells"), queue.enqueue("tells", {"hopeless": True})
    supervisors.run_until_idle(*flags, *DEVICE, handlers=HANDLERS)
    with Session(queue.engine) as session:
        follower_id = session.scalars(select(sqljobs.Job.id).where(sqljobs.Job.type == "seen_fail")).one()
    job, failed, follower = queue.job(good), queue.job(bad), queue.job(follower_id)
    supervisor = supervisors.processes[0].pid
    imports = [int(pid) for pid in (tmp_path / "imports").read_text().split()]
    jobs = {attempt.pid for info in (job, failed, follower) for attempt in info.attempts}
    assert (supervisor in imports, jobs < set(imports), len(imports)) == (False, True, 1 + len(jobs))  # one to tell

    assert (job.state, job.attempts[0].used, job.max_attempts) == ("done", {"gpu": 1}, 3), job.error
    assert (failed.state, failed.attempt, failed.attempts[0].cause) == ("failed", 1, "error")
    assert (follower.type, follower.result) == ("seen_fail", "error")

    told: Any = job.result
    assert told["session"] == told["pid"] == job.attempts[0].pid
    assert (told["parent"], told["death_signal"]) == (supervisor, signal.SIGKILL)
    assert (len(told["mark"]), told["maps"]) == (1, True)
    assert told["mark"][0].startswith(f"{good}.1.")
    assert told["unit"] == ["7", "7"]
    assert (told["inheritable"], told["blocked"]) == ([], [])
    assert "exporter" in told["threads"]
    assert job.attempts[0].log_tail == "printed by Python\nwritten by C\n"
    if flags == SPAWN:
        visible = [*told["cmdline"], *told["environ"]]
        assert f"SQLJOBS_JOB={told['mark'][0]}" in visible  # from its first moment
        assert not [word for word in visible if db_url in word or str(queue.engine.url.database) in word]


def test_a_fresh_interpreter_is_asked_dumped_and_killed_with_all_that_it_started(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, is_alive: Callable[[int], bool]
) -> None:
    daemon = tmp_path / "daemon"
    job_id = queue.enqueue("stays", {"side": str(daemon)})
    supervisors.start(*SPAWN, handlers=HANDLERS)
    pid = wait_until(lambda: daemon.exists() and daemon.read_text(), what="the daemon", timeout=60)
    with Session(queue.engine) as session, session.begin():
        sqljobs.cancel(session, job_id)
    queue.wait_for_cause(job_id, "cancelled")
    assert not is_alive(int(pid))

    def evidence() -> AttemptInfo | None:
        (attempt,) = queue.job(job_id).attempts
        return attempt if attempt.signal else None

    attempt = wait_until(evidence, what="what is known of its end", timeout=60)
    assert attempt is not None
    assert (attempt.signal, attempt.log_tail) == ("SIGKILL", "asked: cancel\ntold by SIGTERM\n")
    assert "in stays" in (attempt.stack_dump or "")


def test_an_import_that_fails_in_the_job_costs_no_attempt_five_times(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    supervisors.start("--no-preload", *DEVICE, handlers=HANDLERS)
    wait_until(lambda: "supervisor started" in supervisors.log(), what="the start", timeout=120)
    (tmp_path / "broken").touch()
    job_id = queue.enqueue("seen_fail", FAILURE, max_attempts=2)
    queue.wait_for_cause(job_id, "error")
    (tmp_path / "broken").unlink()
    assert queue.wait(job_id)[0].state == "done"
    job = queue.job(job_id)
    assert [attempt.cause for attempt in job.attempts] == [*["interrupted"] * 5, "error", "done"]
    assert job.max_attempts == 7
    assert job.attempts[0].started_at is None
    for attempt in job.attempts[:6]:
        assert attempt.error is not None
        assert "cannot be imported: RuntimeError: the model file is gone" in attempt.error
        assert "\n" not in attempt.error


@pytest.mark.parametrize("flags", [[], ["--no-preload"]], ids=["preload", "no-preload"])
def test_what_cannot_be_imported_is_refused_in_the_same_line(
    flags: list[str], queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    del queue
    (tmp_path / "broken").touch()
    assert supervisors.start(*flags, handlers=HANDLERS).wait(timeout=60) == 2
    number = HANDLERS.read_text().splitlines().index('    raise RuntimeError("the model file is gone")') + 1
    place = f"({HANDLERS}, line {number})"
    line = f"sqljobs: handlers {str(HANDLERS)!r} cannot be imported: RuntimeError: the model file is gone {place}\n"
    assert supervisors.log() == line


def test_an_import_that_leaves_threads_is_refused_with_the_way_out(queue: Queue, supervisors: Supervisors) -> None:
    del queue
    assert supervisors.start(handlers=HANDLERS).wait(timeout=60) == 2
    assert supervisors.log() == (
        "sqljobs: importing the handlers left threads running (exporter), which a fork does not copy: use --no-preload,"
        " or start them in a job\n"
    )


@pytest.fixture
def hung_interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file exists a job's interpreter hangs before it has loaded anything of ours."""
    gate = tmp_path / "gate"
    gate.touch()
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        f"import os, time\nwhile 'SQLJOBS_JOB' in os.environ and os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    return gate


def test_an_interpreter_that_has_not_settled_in_is_found_by_the_successor_and_stopped(
    queue: Queue, supervisors: Supervisors, hung_interpreters: Path, is_alive: Callable[[int], bool]
) -> None:
    """Its death signal is not set yet; its mark is there from the first moment."""
    job_id = queue.enqueue("tells", timeout=2)
    first = supervisors.start(*SPAWN, *DEVICE, handlers=HANDLERS)
    wait_until(lambda: queue.job(job_id).state == "leased", what="the claim", timeout=60)
    orphan = wait_until(lambda: _children_of(first.pid), what="the interpreter", timeout=60)[0]
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert is_alive(orphan)
    supervisors.start(*SPAWN, *DEVICE, "--name", "next", handlers=HANDLERS)
    wait_until(lambda: not is_alive(orphan), what="the end of the orphan", timeout=60)
    queue.wait_for_cause(job_id, "interrupted")  # its handler was not reached within its timeout
    hung_interpreters.unlink()
    queue.wait(job_id)
    assert [attempt.signal for attempt in queue.job(job_id).attempts][:2] == [None, "SIGKILL"]


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start_method": "spwan"}, "start_method must be 'fork' or 'spawn', not 'spwan' (did you mean 'spawn'?)"),
        ({"start_method": "spawn", "preload": True}, "start_method 'spawn' cannot preload"),
        ({"preload": 0}, "preload must be true or false, not 0"),
        ({"preload": True, "no_preload": True}, "preload is True and no_preload is True: give one of them"),
    ],
)
def test_bad_values_are_refused(options: dict[str, Any], words: str, queue: Queue) -> None:
    with pytest.raises(sqljobs.InvalidJob) as caught:
        sqljobs.Supervisor(str(queue.engine.url), str(HANDLERS), **options)
    assert words in str(caught.value)


def test_what_no_other_process_can_be_given_is_refused(queue: Queue) -> None:
    with pytest.raises(sqljobs.InvalidJob, match="start_method='spawn' needs the database's URL, not an Engine"):
        sqljobs.Supervisor(queue.engine, str(HANDLERS), start_method="spawn")
    with pytest.raises(sqljobs.BadHandlers, match="a job cannot import the program that you have started"):
        sqljobs.Supervisor(str(queue.engine.url), sys.modules["__main__"], preload=False)
