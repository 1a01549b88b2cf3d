"""`sqljobs enqueue --batch`: JSON lines in one transaction."""

import json
from pathlib import Path
from typing import Any

import pytest

from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli, Said
from tests.cli.test_enqueue import count, job


def batch(cli: Cli, *lines: Any, json_output: bool = True) -> Said:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return cli(*(["--json"] if json_output else []), "enqueue", "--batch", "-", stdin=text)


def test_a_graph_in_any_order(cli: Cli, queue: Database) -> None:
    cli("enqueue", "first")
    said = batch(
        cli,
        {"ref": "end", "type": "merge", "after": ["b", "a", 1]},
        "",
        {"ref": "a", "type": "part", "args": {"n": 1}, "group": "g", "key": "k", "run_after": "1h", "timeout": 5},
        {"ref": "b", "type": "part", "after": ["a"], "weight": None},
        {"type": "alone"},
    )
    assert said.code == 0, said
    assert [(one["ref"], one["created"]) for one in said.json] == [
        *(("end", True), ("a", True), ("b", True), (None, True))
    ]
    end, a, b, alone = (one["id"] for one in said.json)
    assert [upstream.id for upstream in job(queue, end).after] == [b, a, 1]
    assert [upstream.id for upstream in job(queue, b).after] == [a]
    assert (job(queue, a).group, job(queue, a).key, job(queue, a).timeout) == ("g", "k", 5.0)
    assert job(queue, alone).state == "ready"


def test_kinds_of_dependencies(cli: Cli, queue: Database) -> None:
    cli("enqueue", "first")
    said = batch(
        cli,
        {"ref": "notice", "type": "notice", "after_failed": [1, "work"]},
        {"ref": "work", "type": "work", "after": None},
        {"type": "cleanup", "after_any": ["work"], "after": [1]},
    )
    notice, work, cleanup = (one["id"] for one in said.json)
    assert [(edge.id, edge.kind) for edge in job(queue, notice).after] == [(1, "not_ok"), (work, "not_ok")]
    assert [(edge.id, edge.kind) for edge in job(queue, cleanup).after] == [(1, "ok"), (work, "any")]


def test_a_taken_key_and_plain_output(cli: Cli, folder: Path, queue: Database) -> None:
    cli("enqueue", "t", "--key", "k")
    (folder / "jobs.jsonl").write_text('{"type": "t", "key": "k", "ref": "x"}\n{"type": "u", "after": ["x"]}\n')
    said = cli("enqueue", "--batch", "jobs.jsonl")
    assert (said.code, said.out) == (0, "1\n2\n")
    assert [upstream.id for upstream in job(queue, 2).after] == [1]
    assert [one["created"] for one in batch(cli, {"type": "t", "key": "k"}, {"type": "t"}).json] == [False, True]


def test_an_empty_batch(cli: Cli, queue: Database) -> None:
    assert batch(cli, "").json == []
    assert batch(cli, "", json_output=False).out == ""
    assert count(queue) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{bad", "line 2: it is not JSON"),
        ([1], "line 2: it must be a JSON object"),
        ({"args": {}}, "line 2: it needs a type"),
        ({"type": 1}, "line 2: it needs a type"),
        ({"typ": "t"}, "line 2: unknown key 'typ' (did you mean 'type'?)"),
        ({"type": "t", "runafter": 1}, "line 2: unknown key 'runafter' (did you mean 'run_after'?)"),
        ({"type": "t", "after": ["frist"]}, "line 2: after: no line has the ref 'frist' (did you mean 'first'?)"),
        ({"type": "t", "after": "first"}, "line 2: after must be a list"),
        ({"type": "t", "after_any": "first"}, "line 2: after_any must be a list"),
        ({"type": "t", "after_failed": ["frist"]}, "line 2: after_failed: no line has the ref 'frist'"),
        ({"type": "t", "after": ["first"], "after_any": ["first"]}, "line 2: 't' waits for the job of type"),
        ({"type": "t", "after": [True]}, "line 2: after must hold refs (text) and ids (numbers)"),
        ({"type": "t", "after": [1.5]}, "line 2: after must hold refs (text) and ids (numbers)"),
        ({"type": "t", "after": [0]}, "line 2: after: 0 is not a job id"),
        ({"type": "t", "after": [999]}, "there is no job 999"),
        ({"type": "t", "ref": "first"}, "line 2: the ref 'first' is taken by another line"),
        ({"type": "t", "ref": 5}, "line 2: ref must be text"),
        ({"type": "t", "args": [1]}, "line 2: args of 't' must be a mapping"),
        ({"type": "t", "weight": 0}, "line 2: weight must be"),
        ({"type": "t", "weight": "2"}, "line 2: weight must be"),
        (
            {"type": "t", "run_after": "2026-11-29T12:00:00"},
            "line 2: run_after '2026-11-29T12:00:00' has no UTC offset",
        ),
        ({"type": "t", "on_conflict": "no"}, "line 2: on_conflict must be"),
        ({"type": "t", "memory": "1GBx"}, "line 2: memory must be bytes or text such as"),
        ({"type": "t", "container": True, "timeout": "1m"}, "line 2: the container 't' never runs: give timeout to"),
        ({"type": "t", "container": "yes"}, "line 2: container must be True or False"),
        ({"type": "t", "parent": "nobody"}, "line 2: parent: no line has the ref 'nobody'"),
        ({"type": "t", "parent": 1.5}, "line 2: parent must hold refs"),
        ({"type": "t", "ref": "b", "parent": "b"}, "each other: 'b' -> 'b'"),
        ({"type": "t", "ref": "b", "after": ["b"]}, "each other: 'b' -> 'b'"),
    ],
)
def test_refused_as_a_whole(cli: Cli, queue: Database, line: Any, words: str) -> None:
    said = batch(cli, {"type": "first", "ref": "first"}, line)
    assert said.code == 2, said
    assert words in said.line
    assert said.json == {"error": said.line, "code": 2}
    assert count(queue) == 0


def test_a_circle(cli: Cli, queue: Database) -> None:
    said = batch(cli, {"ref": "a", "type": "t", "after": ["b"]}, {"ref": "b", "type": "u", "after": ["a"]})
    assert said.code == 2
    assert said.line == "these jobs wait for each other: 'a' -> 'b' -> 'a'"
    assert count(queue) == 0


def test_a_key_that_must_be_free(cli: Cli, queue: Database) -> None:
    cli("enqueue", "t", "--key", "k")
    said = batch(cli, {"type": "first"}, {"type": "t", "key": "k", "on_conflict": "raise"})
    assert said.code == 1
    assert "is taken by job 1" in said.line
    assert count(queue) == 1


def test_against_handlers(cli: Cli, queue: Database, folder: Path) -> None:
    (folder / "h.py").write_text("import sqljobs\n@sqljobs.handler('cli.batch')\ndef f(n: int): ...\n")
    call = ("enqueue", "--batch", "-", "--handlers", "h.py")
    assert "line 2: no handler is called 'cli.bach'" in cli.refused(
        2, *call, stdin='{"type": "cli.batch", "args": {"n": 1}}\n{"type": "cli.bach"}'
    )
    assert "line 1: f: args.n must be an integer" in cli.refused(
        2, *call, stdin='{"type": "cli.batch", "args": {"n": "x"}}'
    )
    assert cli(*call, stdin='{"type": "cli.batch", "args": {"n": 1}}').out == "1\n"
    assert count(queue) == 1


def test_unreadable_input(cli: Cli, folder: Path) -> None:
    assert "--batch: no.jsonl cannot be read: No such file" in cli.refused(2, "enqueue", "--batch", "no.jsonl")
    (folder / "latin").write_bytes(b'{"type": "\xe9"}')
    assert "latin cannot be read: it is not UTF-8" in cli.refused(2, "enqueue", "--batch", "latin")


def test_ten_thousand(cli: Cli, queue: Database) -> None:
    lines = [{"ref": str(n), "type": "t", "after": [str(n // 2)] if n else []} for n in range(10_000)]
    said = batch(cli, *lines)
    assert said.code == 0
    assert [one["id"] for one in said.json] == list(range(1, 10_001))
    assert count(queue) == 10_000
