"""`sqljobs show --graph`, `--dot` and `--mermaid`."""

import io
import re
import sys

import pytest

from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.__main__ import main
from tests.cli.calling import Cli, on_terminal, program
from tests.pure.graph_languages import read_dot, read_mermaid
from tests.pure.graphs import NASTY
from tests.schema.playing import put, run, set_off

FAILS = Outcome(Cause.FAIL, error='Traceback (most recent call last):\nKeyError: "price" \x1b[31m')
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def workflow(queue: Database) -> dict[str, int]:
    """Extract, two branches, a join, a cleanup, a notifier: by name. Nothing has run."""
    made = {"extract": put(queue, "extract")}
    for branch in ("clean", "enrich"):
        made[branch] = put(queue, branch, after=[made["extract"]], key="2026-11-30", max_attempts=2)
    made["join"] = put(queue, "join", after=[made["clean"], made["enrich"]])
    made["cleanup"] = put(queue, "cleanup", after_any=[made["join"]])
    made["notify"] = put(queue, "notify", after_failed=[made["join"]])
    return made


def fail(queue: Database, workflow: dict[str, int]) -> None:
    """One branch is done, the other failed for good."""
    run(queue, workflow["extract"])
    run(queue, workflow["clean"])
    run(queue, workflow["enrich"], FAILS)


def test_a_workflow_that_failed(cli: Cli, queue: Database, workflow: dict[str, int]) -> None:
    fail(queue, workflow)
    set_off(queue, workflow["notify"])
    said = cli("show", workflow["join"], "--graph")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "Job 4 join  cancelled\n"
        "waited for  2 done, 3 failed\n"
        "needed by   5 ready, 6 running\n"
        "shown       1 ready, 1 running, 2 done, 1 failed, 1 cancelled\n"
        "\n"
        "done        1 extract\n"
        "done        ├─ 2 clean (2026-11-30)\n"
        'failed      └─ 3 enrich (2026-11-30)  KeyError: "price" \\x1b[31m\n'
        "cancelled >    × 4 join               after 2; job 3 did not end well\n"
        "ready          ├┄ 5 cleanup           after any end of 4\n"
        "running        └· 6 notify            after a bad end of 4\n"
        "\n> job 4, × cannot be met any more\n"
    )


def test_before_and_while_it_runs(cli: Cli, queue: Database, workflow: dict[str, int]) -> None:
    assert "blocked >    ○ 4 join" in cli("show", workflow["join"], "--graph").out
    run(queue, workflow["extract"])
    run(queue, workflow["clean"], Outcome(Cause.SNOOZED, after=3600.0))
    shown = cli("show", workflow["clean"], "--graph").out
    assert re.search(r"scheduled > ├─ 2 clean \(2026-11-30\) +due in \S+; try 1 of 3\n", shown)
    assert "ready       └─ 3 enrich" in shown
    assert re.search(r"blocked        ○ 4 join +also waits for 2\n", shown)
    assert shown.endswith("\n> job 2, ○ still waits\n")


def test_every_job_of_a_graph_shows_the_same_graph(cli: Cli, workflow: dict[str, int]) -> None:
    pictures = {re.sub("[> ] ", "  ", cli("show", job, "--graph").out.split("\n\n")[1]) for job in workflow.values()}
    assert len(pictures) == 1


def test_dot(cli: Cli, queue: Database, workflow: dict[str, int]) -> None:
    fail(queue, workflow)
    read = read_dot(cli("show", workflow["join"], "--dot").out)
    assert read.labels["j3"] == ["3 enrich (2026-11-30)", "failed (fail)"]
    assert set(read.edges) == {("j1", "j2"), ("j1", "j3"), ("j2", "j4"), ("j3", "j4"), ("j4", "j5"), ("j4", "j6")}
    assert read.kinds["j3", "j4"] == ("solid", "tee")
    assert read.kinds["j4", "j5"] == ("dashed", "normal")
    assert read.kinds["j4", "j6"] == ("dotted", "normal")


def test_mermaid(cli: Cli, queue: Database, workflow: dict[str, int]) -> None:
    fail(queue, workflow)
    read = read_mermaid(cli("show", workflow["join"], "--mermaid").out)
    assert read.labels["j3"] == ["3 enrich (2026-11-30)", "failed (fail)"]
    assert read.looks["j3"] == "failed"
    assert read.kinds["j3", "j4"] == ("--", "x")
    assert read.kinds["j4", "j5"] == ("any end", ">")
    assert read.kinds["j4", "j6"] == ("bad end", ">")


def test_containers(cli: Cli, queue: Database) -> None:
    container = put(queue, "shards", container=True)
    member, _ = put(queue, "shard", key="a", parent=container), put(queue, "shard", key="b", parent=container)
    put(queue, "merge", after=[container])
    assert "waiting > 1 shards         2 ready\nready     │ ┃ 2 shard (a)\n" in cli("show", container, "--graph").out
    assert read_dot(cli("show", member, "--dot").out).inside[f"j{member}"] == f"cluster_{container}"
    assert read_mermaid(cli("show", member, "--mermaid").out).inside[f"j{member}"] == f"j{container}"


def test_a_limit(cli: Cli, workflow: dict[str, int]) -> None:
    shown = cli("show", workflow["join"], "--graph", "--limit", 3).out
    assert "shown       3 blocked\n" in shown
    assert "… and not shown: 2 more that wait for job 4" in shown
    for form, read in (("--dot", read_dot), ("--mermaid", read_mermaid)):
        assert len([name for name in read(cli("show", 4, form, "--limit", 3).out).labels if name[0] == "j"]) == 3


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    "args",
    [
        *(("show", 1, "--graph", "--dot"), ("show", 1, "--graph", "--mermaid"), ("show", 1, "--dot", "--mermaid")),
        *(("show", 1, "--graph", "--json"), ("--json", "show", 1, "--dot"), ("show", "--json", 1, "--mermaid")),
        ("show", 1, "--mermaid", "--graph", "--dot", "--json"),
    ],
)
def test_one_form_at_a_time(cli: Cli, args: tuple[object, ...]) -> None:
    said = cli(*args)
    assert said.code == 2
    assert "--graph, --dot, --mermaid and --json exclude each other" in said.err
    assert said.json["code"] == 2 if "--json" in args else said.out == ""


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("options", [("--limit", "3"), ("--graph", "--limit", "0"), ("--graph", "--limit", "1001")])
def test_limits_that_make_no_sense(cli: Cli, options: tuple[str, ...]) -> None:
    said = cli("show", 1, *options)
    assert (said.code, said.out) == (2, "")
    assert "--limit" in said.err


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("form", ["--graph", "--dot", "--mermaid"])
def test_an_unknown_id(cli: Cli, form: str) -> None:
    said = cli("show", 999, form)
    assert (said.code, said.out) == (1, "")
    assert said.line == "there is no job 999; `sqljobs list` shows those there are"


def test_colours_on_a_terminal_and_none_in_a_pipe(queue: Database, workflow: dict[str, int]) -> None:
    fail(queue, workflow)
    coloured = on_terminal("show", workflow["join"], "--graph")
    assert "\x1b[31mfailed " in coloured.out
    plain = COLOUR.sub("", coloured.out)
    assert "failed      └─ 3 enrich (2026-11-30)" in plain
    assert max(map(len, plain.splitlines())) <= 80
    narrow = COLOUR.sub("", on_terminal("show", workflow["join"], "--graph", columns=40).out)
    assert "FAIL    └─ 3 enrich (2026-11-30)\n" in narrow
    assert max(map(len, narrow.splitlines())) <= 40
    piped = program("show", workflow["join"], "--graph")
    assert "\x1b" not in piped.out
    assert "failed      └─ 3 enrich" in piped.out


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color(queue: Database, workflow: dict[str, int], monkeypatch: pytest.MonkeyPatch, no_color: bool) -> None:
    fail(queue, workflow)
    terminal = Terminal()
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "80"), *([("NO_COLOR", "1")] if no_color else [])):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["show", str(workflow["join"]), "--graph"]) == 0
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.getvalue())) is not no_color
    assert "failed      └─ 3 enrich" in COLOUR.sub("", terminal.getvalue())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_where_stdout_has_few_characters(cli: Cli, queue: Database, encoding: str) -> None:
    first = put(queue, "日本語é")
    put(queue, "next", after=[first])
    shown = cli("show", first, "--graph", encoding=encoding).out
    assert "blocked   o 2 next" in shown
    assert read_dot(cli("show", first, "--dot", encoding=encoding).out).labels["j1"] == ["1 日本語é", "ready"]
    assert read_mermaid(cli("show", first, "--mermaid", encoding=encoding).out).labels["j1"] == ["1 日本語é", "ready"]


def test_hostile_types(cli: Cli, queue: Database) -> None:
    names = [name for name in NASTY if name.isprintable() and name.strip() == name and name]
    assert len(names) > 15
    first = put(queue, "first")
    made = [put(queue, name, after=[first], key=name) for name in names[:20]]
    shown = cli("show", first, "--graph").out
    read = [read_dot(cli("show", first, "--dot").out), read_mermaid(cli("show", first, "--mermaid").out)]
    for job, name in zip(made, names, strict=False):
        assert f"{job} {name} ({name})" in shown
        assert all(one.labels[f"j{job}"][0][:58] in f"{job} {name} ({name})" for one in read)
