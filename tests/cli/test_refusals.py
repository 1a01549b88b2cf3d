"""Each way in which the database, its URL or the call itself is wrong: one line, the exit code, nothing written."""

import sqlite3
import sys
from pathlib import Path

import pytest

from tests.cli.calling import Cli

COMMANDS: list[list[str]] = [
    *(["list"], ["show", "1"], ["status"], ["wait", "1"], ["enqueue", "t"], ["cancel", "1"], ["retry", "1"]),
    ["run", "--handlers", "handlers.py"],
]
HANDLERS = "import sqljobs\n\n\n@sqljobs.handler\ndef known() -> None: ...\n"


@pytest.fixture(autouse=True)
def handlers(folder: Path) -> None:
    (folder / "handlers.py").write_text(HANDLERS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_file(cli: Cli, folder: Path, command: list[str]) -> None:
    assert cli.refused(4, *command).startswith(f"there is no file {folder}/sqljobs.db: run `sqljobs init`")
    assert not (folder / "sqljobs.db").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_tables(cli: Cli, command: list[str]) -> None:
    sqlite3.connect("sqljobs.db").close()
    Path("sqljobs.db").touch()
    assert "run `sqljobs init`" in cli.refused(4, *command)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("sqljobs.db", 2, "the database URL does not parse"),
        ("postgresql://u:hushhush@h:port/d", 2, "the database URL does not parse"),
        ("postgresql://u:hushhush@127.0.0.1:1/d", 4, "the database cannot be reached"),
        ("mysql://u:hushhush@127.0.0.1:1/d", 4, "the database cannot be reached"),
        ("mysql://u:hushhush@127.0.0.1:1/d?no_such=1", 2, "does not take an option of the database URL"),
        ("postgresql://u:hu@shhush@127.0.0.1:1/d", 4, "the database cannot be reached"),
        ("sqlite:///handlers.py", 4, "file is not a database"),
        ("sqlite:///sqljobs.db?no_such=1", 2, "'no_such'"),
        ("mssql://u:hushhush@h/d", 4, "mssql is not supported"),
        ("nonsense://u:hushhush@h/d", 4, "nonsense is not supported"),
    ],
)
@pytest.mark.usefixtures("queue")
def test_urls(cli: Cli, command: list[str], url: str, code: int, words: str) -> None:
    line = cli.refused(code, *command, "--url", url)
    assert words in line
    assert "hush" not in line


@pytest.mark.parametrize(
    ("driver", "url", "package"),
    [("psycopg", "postgresql://h/d", "sqljobs[postgresql]"), ("pymysql", "mysql://h/d", "sqljobs[mysql]")],
)
def test_missing_driver(cli: Cli, monkeypatch: pytest.MonkeyPatch, driver: str, url: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    assert cli.refused(4, "list", "--url", url) == f"the driver {driver} is not installed: run pip install '{package}'"


@pytest.mark.usefixtures("queue")
def test_asynchronous_driver(cli: Cli) -> None:
    assert "asynchronous driver" in cli.refused(2, "list", "--url", "sqlite+aiosqlite:///sqljobs.db")


@pytest.mark.usefixtures("queue")
def test_options_before_and_after_the_command(cli: Cli) -> None:
    for args in (["--json", "list"], ["list", "--json"], ["--json", "list", "--json"]):
        assert cli(*args).json == []
    for args in (["--url", "sqlite:///no.db", "list"], ["list", "--url", "sqlite:///no.db"]):
        assert cli(*args).code == 4
    assert cli("--url", "sqlite:///no.db", "list", "--url", "sqlite:///sqljobs.db").code == 0
    Path("other.toml").write_text('url = "sqlite:///no.db"\n')
    assert cli("--config", "other.toml", "list").code == 4
    assert cli("list", "--config", "other.toml").code == 4
    assert "SQLite has no schemas" in cli.refused(4, "init", "--schema", "x")


@pytest.mark.usefixtures("queue")
def test_a_faulty_file_stops_every_command(cli: Cli) -> None:
    Path("sqljobs.toml").write_text("[run]\nslot = 1\n")
    for command in (*COMMANDS, ["init"], ["demo", "--eject", "new"]):
        assert cli.refused(2, *command) == "sqljobs.toml: unknown key 'slot' in [run] (did you mean 'slots'?)"


@pytest.mark.parametrize(
    "args",
    [
        *(["lst"], ["list", "--no-such"], ["list", "--limit", "0"], ["list", "--limit", "x"], ["show"], ["wait"]),
        *(
            ["show", "x"],
            ["show", "-5"],
            ["list", "--state", "x"],
            ["list", "--cause", "x"],
            ["hold", "jobs", "1"],
        ),
        *(
            ["enqueue", "t", "--weight", "x"],
            ["enqueue", "t", "--parent", "x"],
            ["limit", "set"],
            ["group", "set", "g"],
            ["prune"],
            ["explain", "x"],
        ),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("queue")
def test_usage_errors_keep_the_form_of_click(cli: Cli, args: list[str]) -> None:
    said = cli(*args)
    assert said.code == 2
    assert said.err.startswith("Usage: sqljobs")
    assert said.out == ""
    told = cli(*args, "--json").json
    assert told["code"] == 2
    assert told["error"] in said.err


@pytest.mark.usefixtures("queue")
def test_a_fault_of_ours(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("[red]x\n\x1b[31m postgresql://u:hushhush@h/d")

    monkeypatch.setattr("sqljobs.supervisor.cli.status.read_status", broken)
    line = cli.refused(70, "status")
    assert line.startswith("a fault of ours: KeyError: ")
    assert "test_refusals.py" not in line
    assert "status.py, line " in line or "transactions.py, line " in line
    assert "please report it" in line
    assert "hush" not in line
    monkeypatch.setenv("SQLJOBS_DEBUG", "1")
    said = cli("status")
    assert said.err.startswith("Traceback (most recent call last):\n")
    assert "hush" not in said.err
    assert "\x1b" not in said.err


@pytest.mark.usefixtures("queue")
def test_the_database_refuses_later(cli: Cli) -> None:
    with sqlite3.connect("sqljobs.db") as conn:
        conn.execute("DROP TABLE job_attempts")
        conn.execute(
            "INSERT INTO jobs (type, state, group_key, weight, priority, max_attempts, first_max_attempts,"
            " timeout, container, key_for, in_flight, attempt, cancel_now, unmet_deps, closed_gates,"
            " open_children, done_children, failed_children, cancelled_children, created_at, updated_at)"
            " VALUES ('t', 'ready', 'g', 1, 0, 1, 1, 0, 0, 'open', 0, 0, 0, 0, 0, 0, 0, 0, 0,"
            " '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000')"
        )
    conn.close()
    assert "run `sqljobs init`" in cli.refused(4, "show", "1")
