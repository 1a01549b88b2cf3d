"""Limits on memory: the tree is measured, shared pages count once, and what the kernel kills is told apart."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.queue.conftest import QUICK_LEASES, Queue, Supervisors
from tests.waiting import wait_until

LADDER = Path(__file__).with_name("ladder_handlers.py")
GRACE = ("--ttl", "12", "--kill-grace", "4")


@pytest.mark.databases("sqlite")
def test_the_limit_of_a_job_goes_before_that_of_its_handler(queue: Queue, supervisors: Supervisors) -> None:
    lower = queue.enqueue("waits", memory="1MiB")
    higher = queue.enqueue("shares", {"workers": 0}, memory="1GiB")
    supervisors.start(*GRACE, handlers=LADDER)
    (info,) = queue.wait(lower)
    assert (info.attempts[0].cause, info.memory) == ("memory", 2**20)
    assert queue.wait(higher)[0].memory == 2**30


@pytest.mark.databases("sqlite")
def test_a_limit_below_what_is_loaded_is_refused_at_the_start(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    handlers = tmp_path / "laden.py"
    handlers.write_text(
        "import sqljobs\nkept = bytearray(b'x' * (100 << 20))\n"
        "@sqljobs.handler(memory='90MiB')\ndef small(): ...\n@sqljobs.handler(memory='2GiB')\ndef large(): ...\n"
    )
    command = [sys.executable, "-m", "sqljobs.supervisor", "--url", supervisors.url, "run", "--handlers", str(handlers)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert "the memory limit of 'small', 90.0 MiB, is below the" in ended.stderr
    assert queue.engine.url.database


@pytest.mark.databases("sqlite")
def test_what_has_no_mark_counts_where_it_can_be_nobody_elses(queue: Queue, supervisors: Supervisors) -> None:
    job_id = queue.enqueue("hogs_together", {"bare": True})
    supervisors.start(*GRACE, handlers=LADDER)
    (info,) = queue.wait(job_id)
    assert info.attempts[0].cause == "memory"
    assert "more than the memory limit of 300.0 MiB" in (info.error or "")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of version 1 that may hold 150 MiB."""
    top = Path("/sys/fs/cgroup/memory")
    folder = top / f"sqljobs-test-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(150 * 2**20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), what="the group to be empty")
    folder.rmdir()


@pytest.mark.databases("sqlite")
def test_what_the_kernel_kills_for_want_of_memory_is_told_apart(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, group: Path
) -> None:
    job_id = queue.enqueue("grows")
    command = [sys.executable, "-m", "sqljobs.supervisor", "--url", supervisors.url, "run", "--until-idle"]
    log = (tmp_path / "log").open("wb")
    ended = subprocess.run(
        [*command, "--handlers", str(LADDER), *QUICK_LEASES],
        stderr=log,
        check=False,
        timeout=120,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
    )
    log.close()
    assert ended.returncode == 0, (tmp_path / "log").read_text()
    (attempt,) = queue.job(job_id).attempts
    assert (attempt.cause, attempt.signal) == ("memory", "SIGKILL")
    assert "the kernel's OOM killer" in (attempt.error or "")
