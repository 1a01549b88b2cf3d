"""The job type `shell`: commands by real supervisors, and what becomes of them with their job."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sqljobs
from sqljobs.shell import shell
from sqljobs.testing import run_inline
from tests.queue.conftest import Queue, Supervisors
from tests.waiting import wait_until

MODULE = Path("sqljobs.shell")  # `--handlers` takes the name of a module


def sh(script: str, **more: Any) -> sqljobs.JobSpec:
    return shell.spec(["sh", "-c", script], **more)


@pytest.mark.databases("sqlite")
def test_commands_that_a_supervisor_runs(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, is_alive: Callable[[int], bool]
) -> None:
    written = tmp_path / "written"
    specs = [
        sh('pwd > written; echo "$WHO" >> written', cwd=str(tmp_path), env={"WHO": "somebody"}),
        sh("exit 3", ok=[0, 3]),
        sh("echo out; echo why >&2; exit 4").options(max_attempts=1),
        sh("kill -KILL $$").options(max_attempts=1),
        sh("echo $$ > ended; exec sleep 600", cwd=str(tmp_path)).options(max_attempts=1, timeout="1s"),
        sqljobs.JobSpec("shell", {"argv": ["$HOME"]}, max_attempts=1),
    ]
    ids = queue.enqueue_many(specs)
    supervisors.run_until_idle(handlers=MODULE, slots=2)
    jobs = queue.wait(*ids)
    assert [(job.state, job.attempts[0].cause) for job in jobs] == [
        ("done", "done"),
        ("done", "done"),
        ("failed", "error"),
        ("failed", "error"),
        ("failed", "timeout"),
        ("failed", "error"),
    ]
    assert [job.result for job in jobs[:2]] == [{"exit_code": 0}, {"exit_code": 3}]
    assert written.read_text() == f"{tmp_path}\nsomebody\n"
    last = [(job.error or "-").splitlines()[-1] for job in jobs]
    assert last[2:4] == ["'sh' ended with exit code 4", "sqljobs.shell.CommandFailed: 'sh' was ended by SIGKILL"]
    assert "\nwhy\n" in (jobs[2].error or "")
    assert last[5] == "sqljobs.shell.CommandFailed: '$HOME' cannot be started: No such file or directory"
    pid = int((tmp_path / "ended").read_text())
    wait_until(lambda: not is_alive(pid), what="the command to be gone with its job", timeout=30)


@pytest.mark.databases("sqlite")
def test_what_a_command_prints_is_the_jobs_output(queue: Queue, supervisors: Supervisors) -> None:
    job_id = queue.enqueue(sh("echo to stdout; echo to stderr >&2"))
    supervisors.run_until_idle(handlers=MODULE)
    (job,) = queue.wait(job_id)
    printed = job.attempts[0].log_tail or ""
    assert job.state == "done"
    assert "to stdout\n" in printed
    assert "to stderr\n" in printed


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "argument 'argv' is missing"),
        ({"argv": []}, 'must be a list of text that begins with the command, as in ["ls", "-l"]'),
        ({"argv": "ls -l"}, "must be a list of text"),
        ({"argv": ["ls", 1]}, "must be a list of text"),
        ({"argv": ["ls"], "env": {"A": 1}}, "args.env.A must be text"),
        ({"argv": ["ls"], "ok": ["0"]}, "args.ok[0] must be an integer"),
        ({"argv": ["ls"], "shell": True}, "no argument 'shell'"),
    ],
)
def test_arguments_that_no_command_could_have(args: dict[str, Any], told: str) -> None:
    outcome = run_inline(sqljobs.JobSpec("shell", args))
    assert (outcome.state, outcome.cause) == ("failed", "bad_args")
    assert told in (outcome.error or "")


@pytest.mark.parametrize(
    ("spec", "cause", "told"),
    [
        (sh("true", cwd="/no/such"), "error", "there is no folder '/no/such' to run 'sh' in"),
        (shell.spec(["/etc/passwd"]), "error", "'/etc/passwd' cannot be started: Permission denied"),
        (sh("true", env={"A=B": "1"}), "fail", "cannot be started: illegal environment variable name"),
        (sh("exit 0", ok=[1]), "error", "ended with exit code 0"),
        (sh("sleep 3 & echo early >&2; exit 1"), "error", "early"),  # whoever keeps stderr open is not waited for
        (sh("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1"), "error", "x" * 1000),
    ],
)
def test_commands_that_do_not_end_well(
    spec: sqljobs.JobSpec, cause: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = run_inline(spec)
    capfd.readouterr()
    assert outcome.cause == cause
    assert told in (outcome.error or "")
    assert len(outcome.error or "") < 20_000


def test_it_is_a_plain_function_that_reads_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert shell(["sh", "-c", "cat; echo out; echo err >&2"]) == {"exit_code": 0}
    assert capfd.readouterr() == ("out\n", "err\n")
    assert run_inline(shell.spec(["true"])).result == {"exit_code": 0}
