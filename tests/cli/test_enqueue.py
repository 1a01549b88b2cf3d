"""`sqljobs enqueue` of one job."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import sqljobs
from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli
from tests.schema.playing import put

HANDLERS = """
from pathlib import Path
import sqljobs

@sqljobs.handler("cli.resize", group="pictures", weight=3, max_attempts=2)
def resize(path: Path, width: int = 256, tags: list[str] = []) -> None: ...
"""


@pytest.fixture
def handlers(folder: Path) -> str:
    (folder / "handlers.py").write_text(HANDLERS)
    return "handlers.py"


def job(queue: Database, job_id: int) -> sqljobs.JobInfo:
    with queue.engine.connect() as conn:
        return sqljobs.get_job(conn, job_id)


def count(queue: Database) -> int:
    with queue.engine.connect() as conn:
        return int(conn.execute(text("SELECT count(*) FROM jobs")).scalar_one())


def test_prints_the_id(cli: Cli, queue: Database) -> None:
    said = cli("enqueue", "t")
    assert (said.code, said.out, said.err) == (0, "1\n", "")
    assert cli("enqueue", "t", "--json").json == {"id": 2, "created": True}
    assert job(queue, 1).args is None


def test_all_options(cli: Cli, queue: Database) -> None:
    cli("enqueue", "up")
    options = ("--group", "g", "--weight", 2, "--priority", "-5", "--key", "k", "--key-for", "ever", "--after", 1)
    more = ("--after", "1", "--max-attempts", 7, "--timeout", "90s", "--run-after", "2h", "--on-conflict", "raise")
    assert cli("enqueue", "t", *options, *more).out == "2\n"
    found = job(queue, 2)
    assert (found.group, found.weight, found.priority, found.key) == ("g", 2, -5, "k")
    assert (found.max_attempts, found.timeout, found.state) == (7, 90.0, "blocked")
    assert [upstream.id for upstream in found.after] == [1]
    assert found.run_after is not None
    assert abs(found.run_after - found.created_at - timedelta(hours=2)) < timedelta(seconds=1)


def test_kinds_of_dependencies(cli: Cli, queue: Database) -> None:
    for _ in range(3):
        cli("enqueue", "up")
    assert cli("enqueue", "t", "--after-failed", 3, "--after-any", "2", "--after", "1").out == "4\n"
    assert [(edge.id, edge.kind) for edge in job(queue, 4).after] == [(1, "ok"), (2, "any"), (3, "not_ok")]
    assert "after any end" in cli("show", 4).out
    said = cli("enqueue", "t", "--after", 1, "--after-any", 1)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "in two ways" in said.err


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--args", '{"a": 1, "b": [2.5, null]}'], {"a": 1, "b": [2.5, None]}),
        (["--arg", "a=1", "--arg", "b=text", "--arg", 'c={"d": true}'], {"a": 1, "b": "text", "c": {"d": True}}),
        (["--arg", "a=", "--arg", "b==", "--arg", "c=NaN"], {"a": "", "b": "=", "c": "NaN"}),
        (["--args", '{"a": 1, "b": 2}', "--arg", "a=3"], {"a": 3, "b": 2}),
        (["--args", "@args.json"], {"from": "file"}),
        (["--args", "-"], {"from": "stdin"}),
        (["--args", "null"], None),
        (["--args", "{}"], None),
        (["--arg", f"n={10**30}"], {"n": 10**30}),
    ],
)
def test_arguments(cli: Cli, queue: Database, folder: Path, args: list[str], expected: Any) -> None:
    (folder / "args.json").write_text('{"from": "file"}', encoding="utf-8-sig")
    assert cli("enqueue", "t", *args, stdin='{"from": "stdin"}').out == "1\n"
    assert job(queue, 1).args == expected


def test_handlers_convert_and_give_defaults(cli: Cli, queue: Database, folder: Path, handlers: str) -> None:
    (folder / handlers).write_text("print('a module may print when it is imported')" + HANDLERS)
    call = ("enqueue", "cli.resize", "--handlers", handlers)
    said = cli(*call, "--arg", "path=12", "--arg", "width=64", "--arg", 'tags=["x"]', "--json")
    assert said.json == {"id": 1, "created": True}
    assert said.err == "a module may print when it is imported\n"
    found = job(queue, 1)
    assert found.args == {"path": "12", "width": 64, "tags": ["x"]}
    assert (found.group, found.weight) == ("pictures", 3)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["cli.resise"], "no handler is called 'cli.resise' (did you mean 'cli.resize'?)"),
        (["other"], "no handler is called 'other'; there are cli.resize"),
        (["cli.resize"], "argument 'path' is missing"),
        (["cli.resize", "--arg", "pth=x"], "no argument 'pth' (did you mean 'path'?)"),
        (["cli.resize", "--arg", "path=x", "--arg", "width=wide"], "args.width must be an integer, not 'wide'"),
    ],
)
def test_handlers_refuse(cli: Cli, queue: Database, handlers: str, args: list[str], words: str) -> None:
    assert words in cli.refused(2, "enqueue", "--handlers", handlers, *args)
    assert count(queue) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_module", "no_such_module"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("def broken(:", "SyntaxError"),
        ("x = 1", "registers no job type"),
        (
            "import sqljobs\n@sqljobs.handler('cli.twice')\ndef a(): ...\n@sqljobs.handler('cli.twice')\ndef b(): ...",
            "registered twice",
        ),
    ],
)
@pytest.mark.parametrize("command", [["enqueue", "t"], ["run"]], ids=["enqueue", "run"])
@pytest.mark.usefixtures("queue")
def test_bad_handlers(cli: Cli, folder: Path, command: list[str], text: str, words: str) -> None:
    (folder / "bad.py").write_text(text)
    line = cli.refused(2, *command, "--handlers", "bad.py")
    assert words in line
    assert "bad" in line


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["t", "--args", "{bad"], "--args is not JSON"),
        (["t", "--args", "[1]"], "--args must be a JSON object"),
        (["t", "--args", "@no.json"], "--args: no.json cannot be read: No such file"),
        (["t", "--args", '{"x": NaN}'], "--args is not JSON"),
        (["t", "--args", '{"x": "\\u0000"}'], "has a NUL character"),
        (["t", "--arg", "x"], "--arg must be NAME=VALUE, not 'x'"),
        (["t", "--arg", "=x"], "--arg must be NAME=VALUE"),
        (["t", "--arg", "x=1", "--arg", "x=2"], "--arg 'x' is given twice"),
        (["t", "--run-after", "2026-11-29T12:00:00"], "has no UTC offset"),
        (["t", "--run-after", "tomorrow"], "run_after must be a time"),
        (["t", "--after", "999"], "there is no job 999"),
        (["t", "--after", "0"], "0 is not a job id"),
        (["t", "--weight", "0"], "weight must be a whole number from 1"),
        (["t", "--priority", "1001"], "priority must be a whole number from -1000 to 1000"),
        (["t", "--max-attempts", "0"], "max_attempts must be a whole number from 1"),
        (["t", "--timeout", "soon"], "timeout must be seconds"),
        (["t", "--key", " k"], "key ' k' has a space"),
        (["t\n"], "type 't\\n' has a control character"),
        ([""], "type '' is empty"),
        (["t" * 201], "has 201 characters"),
        (["t", "--handlers", "no.py"], "there is no handlers file"),
        ([], "enqueue what?"),
        (["t", "--batch", "-"], "--batch takes types, arguments and options from its lines"),
        (["--batch", "-", "--group", "g"], "--batch takes types, arguments and options from its lines"),
    ],
)
def test_refused(cli: Cli, queue: Database, args: list[str], words: str) -> None:
    assert words in cli.refused(2, "enqueue", *args)
    assert count(queue) == 0


def test_keys(cli: Cli, queue: Database) -> None:
    call = ("enqueue", "t", "--key", "k")
    assert cli(*call, "--json").json == {"id": 1, "created": True}
    assert cli(*call, "--json").json == {"id": 1, "created": False}
    assert cli(*call).out == "1\n"
    line = cli.refused(1, *call, "--on-conflict", "raise")
    assert line.startswith("'t' with key 'k' is taken by job 1; look at it with `sqljobs show 1`")
    assert count(queue) == 1


@pytest.mark.usefixtures("queue")
def test_unusual_text_survives(cli: Cli) -> None:
    value = 'é☃"\\[red] \x1b[31m\u202e😀'
    cli("enqueue", "t", "--args", json.dumps({"x": value}), "--group", "[bold]ü")
    assert cli("show", 1, "--json").json["args"] == {"x": value}
    assert cli("show", 1, "--json", encoding="latin-1").json["args"] == {"x": value}
    for command in (["show", 1], ["list"], ["show", 1, "--json"]):
        said = cli(*command).out
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert "[bold]ü" in said


def test_show_keeps_the_blanks_of_json(cli: Cli, queue: Database) -> None:
    job_id = put(queue, "t", {"text": "a    b\n\tc \x1b[31m"})
    assert '{"text": "a    b\\n\\tc \\u001b[31m"}' in cli("show", job_id).out
