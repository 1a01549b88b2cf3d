"""`sqljobs run` as a program, from enqueue to done."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from sqljobs.schema.transactions import Database
from tests.cli.calling import PROGRAM, Cli, program
from tests.schema.playing import put, row, states
from tests.waiting import wait_until

HANDLERS = """
import os, signal
import sqljobs

print("printed at import")

@sqljobs.handler("cli.add")
def add(a: int, b: int = 1) -> dict:
    return {"sum": a + b}

@sqljobs.handler("cli.die", max_attempts=1)
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""
OTHER = """
import sqljobs

@sqljobs.handler("cli.other")
def other() -> str:
    return "other"
"""


@pytest.fixture(autouse=True)
def handlers(folder: Path) -> None:
    (folder / "handlers.py").write_text(HANDLERS)
    (folder / "lib").mkdir()
    (folder / "lib" / "more.py").write_text(OTHER)


def test_until_idle(cli: Cli, queue: Database) -> None:
    first = program("enqueue", "cli.add", "--handlers", "handlers.py", "--arg", "a=40", "--arg", "b=2", "--json")
    assert first.json == {"id": 1, "created": True}
    cli("enqueue", "cli.die", "--after", 1)
    cli("enqueue", "cli.other", "--after", 1)
    cli("enqueue", "nobody's")
    ended = program("run", "--handlers", "handlers.py", "lib/more.py", "--until-idle", "--slots", "2")
    assert ended.code == 0
    assert cli("show", 1, "--json").json["result"] == {"sum": 42}
    assert states(queue, [1, 2, 3, 4]) == ["done", "failed", "done", "ready"]
    lines = [json.loads(line) for line in ended.err.splitlines() if line != "printed at import"]
    assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
    assert lines[-1]["event"] == "until idle: 3 attempts ended (2 done, 1 signal)"
    waited = cli("wait", 1, 2, 3, "--json")
    assert (waited.code, [job["state"] for job in waited.json]) == (1, ["done", "failed", "done"])
    (supervisor,) = cli("status", "--json").json["supervisors"]
    assert (supervisor["state"], supervisor["slots"]) == ("gone", 2)
    shown = cli("status").out
    assert supervisor["name"] in shown


def test_settings_from_the_file(queue: Database, folder: Path) -> None:
    (folder / "sqljobs.toml").write_text(
        '[run]\nhandlers = ["more"]\napp_dir = "lib"\nuntil_idle = true\nname = "from-file"\nslots = 3\npoll = "10ms"\n'
    )
    job_id = put(queue, "cli.other")
    assert program("run", "--slots", "1").code == 0
    assert row(queue, job_id).state == "done"
    (supervisor,) = program("status", "--json").json["supervisors"]
    assert (supervisor["name"], supervisor["slots"], supervisor["types"]) == ("from-file", 1, ["cli.other"])


@pytest.mark.usefixtures("queue")
def test_devices_of_the_file_device_by_device(folder: Path) -> None:
    (folder / "sqljobs.toml").write_text(
        '[run]\nhandlers = ["handlers.py"]\nuntil_idle = true\n'
        '[devices.gpu]\nunits = [0, 1]\nenv = "CUDA_VISIBLE_DEVICES"\n[devices.fpga]\nunits = ["a"]\n'
    )
    assert program("run", "--name", "one").code == 0
    assert program("run", "--name", "two", "--device", "gpu=7", "--device-env", "fpga=FPGA").code == 0
    one, two = (found["devices"] for found in program("status", "--json").json["supervisors"])
    assert one == {"gpu": {"units": ["0", "1"]}, "fpga": {"units": ["a"]}}
    assert two == {"gpu": {"units": ["7"]}, "fpga": {"units": ["a"]}}
    refused = program("run", "--device-env", "fpga=CUDA_VISIBLE_DEVICES")
    assert (refused.code, "cannot be the variable of both" in refused.err) == (2, True)


def test_only(queue: Database) -> None:
    ids = [put(queue, "cli.add", {"a": 1}, group=group) for group in ("x", "y")]
    call = ("run", "--handlers", "handlers.py", "--until-idle")
    assert program(*call, "--only-type", "cli.die").code == 0
    assert program(*call, "--only-type", "cli.add", "--only-group", "y").code == 0
    assert states(queue, ids) == ["ready", "done"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals(queue: Database, number: signal.Signals, code: int) -> None:
    job_id = put(queue, "cli.add", {"a": 1})
    process = subprocess.Popen([*PROGRAM, "run", "--handlers", "handlers.py"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: row(queue, job_id).state == "done", what="the first job")
        process.send_signal(number)
        assert process.wait(30) == code
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "run needs --handlers"),
        (["handlers.py"], "write --handlers before 'handlers.py'"),
        (["--handlers", "nothing"], "there is no module 'nothing'"),
        (["--handlers", "handlers.py", "--slots", "0"], "slots must be a whole number from 1"),
        (["--handlers", "handlers.py", "--ttl", "5s"], "must be below ttl (5 s)"),
        (["--handlers", "handlers.py", "--heartbeat", "often"], "heartbeat must be seconds"),
        (["--handlers", "handlers.py", "--poll", "2s-1s"], "poll must be FAST-SLOW"),
        (["--handlers", "handlers.py", "--on-lease-lost", "run"], "on_lease_lost must be 'keep' or 'kill'"),
        (["--handlers", "handlers.py", "--name", " x"], "name ' x' has a space"),
        (["--handlers", "handlers.py", "--url", "sqlite://"], "name a SQLite file"),
        (["--handlers", "handlers.py", "--device", "gpu"], "device: write NAME=UNIT,UNIT such as gpu=0,1, not 'gpu'"),
        (["--handlers", "handlers.py", "--device", "gpu=0,0"], "unit '0' is given twice"),
        (["--handlers", "handlers.py", "--device", "gpu=0", "--device", "gpu=1"], "'gpu' is given twice"),
        (["--handlers", "handlers.py", "--device-env", "gpu=GPUS"], "there is no device 'gpu'"),
        (
            ["--handlers", "handlers.py", "--only-type", "cli.ad"],
            "no handler is called 'cli.ad' (did you mean 'cli.add'?)",
        ),
    ],
)
@pytest.mark.usefixtures("queue")
def test_refused(args: list[str], words: str, cli: Cli) -> None:
    said = cli("run", *args)
    assert said.code == 2
    assert words in said.err.removeprefix("printed at import\n")
    assert said.err.count("\n") == 1 + said.err.count("printed at import\n")


def test_a_password_is_not_shown_to_other_users(folder: Path) -> None:
    (folder / "url").write_text("sqlite:///sqljobs.db\n")
    assert program("init", SQLJOBS_URL_FILE="url").code == 0
    assert os.path.exists("sqljobs.db")
    assert program("run", "--handlers", "handlers.py", "--until-idle", SQLJOBS_URL_FILE="url").code == 0
