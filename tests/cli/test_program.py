"""The program on a terminal, in a pipe, without stdout, and interrupted."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.cli.calling import PROGRAM, Cli, on_terminal, program
from tests.schema.playing import put, run, states
from tests.waiting import wait_until

FAILED = Outcome(Cause.FAIL, error="ValueError: no")


def test_help_and_version(cli: Cli) -> None:
    said = cli("--help")
    assert said.code == 0
    for name in (
        "init",
        "run",
        "enqueue",
        "list",
        "show",
        "status",
        "wait",
        "cancel",
        "retry",
        "skip",
        "hold",
        "release",
        "limit",
        "group",
        "explain",
        "drain",
        "doctor",
        "demo",
    ):
        assert f"\n  {name} " in said.out
    for name in ("prune", "top"):
        assert f"\n  {name} " not in said.out
    assert cli("--version").out.startswith("sqljobs 0.")
    assert cli().code == 2


def test_a_closed_pipe_ends_quietly(queue: Database) -> None:
    for _ in range(3):
        put(queue)
    for command in (["list"], ["list", "--json"], ["enqueue", "t"]):
        process = subprocess.Popen([*PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(60) == 0
    assert states(queue, [4]) == ["ready"]


@pytest.mark.parametrize(("redirect", "code"), [(">&-", 0), (">/dev/full", 70), ("2>&-", 0), ("<&-", 0)])
@pytest.mark.usefixtures("queue")
def test_streams_that_are_not_there(redirect: str, code: int) -> None:
    command = f'"{sys.executable}" -m sqljobs.supervisor list {redirect}'
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert ended.stderr.count("\n") == (1 if code else 0)


def test_interrupted(queue: Database) -> None:
    job_id = put(queue)
    process = subprocess.Popen([*PROGRAM, "wait", str(job_id)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # It holds the database's file open only while it looks.
    wait_until(lambda: "sqljobs.db" in _open_files(process.pid), what="its first look", interval=0.001)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def _open_files(pid: int) -> str:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(link.readlink().name)
        except FileNotFoundError:
            continue
    return " ".join(found)


def test_colours_on_a_terminal_alone(queue: Database) -> None:
    run(queue, put(queue, "resize"))
    assert "\x1b[32mdone" in on_terminal("list").out
    assert "\x1b" not in program("list", FORCE_COLOR="1").out


def test_a_narrow_terminal(queue: Database) -> None:
    job_id = put(
        queue, "a_type_with_a_long_name", key="a-key-of-some-length", group="a-group-of-some-length", max_attempts=1
    )
    run(queue, job_id, Outcome(Cause.ERROR, error="a long error " * 20))
    for command in (["list"], ["show", "1"]):
        said = on_terminal(*command, columns=40)
        assert said.code == 0
        assert "failed" in said.out
        assert all(len(_plain(line)) <= 40 for line in said.out.splitlines()), said.out


def _plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("answer", "code", "state"), [("n\n", 1, "failed"), ("y\n", 0, "ready"), ("\x03", 130, "failed")]
)
def test_asks_on_a_terminal(queue: Database, answer: str, code: int, state: str) -> None:
    ids = [put(queue), put(queue)]
    for job_id in ids:
        run(queue, job_id, FAILED)
    said = on_terminal("retry", "--state", "failed", typed=answer, wait_for="[y/N]")
    assert "Retry 2 jobs (1, 2)? [y/N]" in said.out
    assert said.code == code
    assert states(queue, ids) == [state] * 2


def test_demo_ejects(cli: Cli, folder: Path) -> None:
    said = cli("demo", "--eject", "new", "--json")
    assert said.code == 0
    assert sorted(Path(name).name for name in said.json) == ["README.md", "handlers.py", "pipeline.py"]
    assert all((folder / name).exists() for name in said.json)
    again = cli("demo", "--eject", "new")
    assert again.code == 2
    assert "is there already" in again.line
    assert "leave --path and --slots out" in cli("demo", "--eject", "x", "--slots", "2").line


def test_the_pools_own_log_stays_off_stderr() -> None:
    """Ctrl-C may come just when it closes a connection."""
    script = (
        "import logging; from sqljobs.supervisor.cli.app import run_command_line; run_command_line(['--version']);"
        "logging.getLogger('sqlalchemy.pool.impl.NullPool').error('Exception closing connection')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
