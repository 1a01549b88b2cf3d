"""`sqljobs explain`."""

import shlex

import pytest

import sqljobs
from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli, on_terminal
from tests.schema.explaining import crew, put_hold
from tests.schema.playing import put


def test_json(cli: Cli, queue: Database) -> None:
    crew(queue)
    first = put(queue)
    second = put(queue, after=[first], run_after="1h")
    assert cli("explain", first, "--json").json == {"id": first, "state": "ready", "reasons": []}
    told = cli("--json", "explain", second).json
    assert list(told) == ["id", "state", "reasons"]
    assert (told["id"], told["state"]) == (second, "blocked")
    dependency, scheduled = told["reasons"]
    assert list(dependency) == ["code", "text", "job_id", "until", "blockers"]
    assert (dependency["code"], dependency["job_id"], dependency["blockers"]) == ("dependency", first, [first])
    assert dependency["until"] is None
    assert (scheduled["code"], scheduled["job_id"], scheduled["blockers"]) == ("scheduled", None, [])
    assert scheduled["until"] == cli("show", second, "--json").json["run_after"]
    with queue.engine.connect() as conn:
        assert [reason.text for reason in sqljobs.explain(conn, second)] == [one["text"] for one in told["reasons"]]


def test_one_reason_in_words(cli: Cli, queue: Database) -> None:
    crew(queue)
    job_id = put(queue)
    put_hold(queue, "type", "t", reason="rain \x1b[31m")
    said = cli("explain", job_id)
    assert (said.code, said.err) == (0, "")
    head, line = said.out.splitlines()
    assert head == f"Job {job_id}  ready"
    assert line == "hold: Type t is held: rain \\x1b[31m: `sqljobs release type t` ends that."


def test_several_reasons_in_words(cli: Cli, queue: Database) -> None:
    first = put(queue)
    said = cli("explain", put(queue, after=[first])).out.splitlines()
    assert said[1].startswith(f"1. dependency: It waits for job {first} (t, ready)")
    assert said[2].startswith("2. no_supervisor: No supervisor runs")
    assert len(said) == 3


def test_no_reason_in_words(cli: Cli, queue: Database) -> None:
    crew(queue)
    assert "may start at the next tick" in cli("explain", put(queue)).out


def test_on_a_terminal(cli: Cli, queue: Database) -> None:
    del cli
    shown = on_terminal("explain", put(queue), columns=40)
    assert shown.code == 0
    assert all(len(line) < 80 for line in shown.out.splitlines())  # 40 characters, and their colours


@pytest.mark.parametrize("job_id", [7, 2**63])
def test_unknown(cli: Cli, queue: Database, job_id: int) -> None:
    del queue
    assert cli.refused(1, "explain", job_id).startswith(f"there is no job {job_id};")


def test_usage(cli: Cli, queue: Database) -> None:
    del queue
    assert cli("explain", "first").code == 2
    assert cli("explain").code == 2


@pytest.mark.parametrize("name", ["plain", "-rf", "--yes", "two words"])
def test_the_command_that_it_names_is_one(cli: Cli, queue: Database, name: str) -> None:
    crew(queue, types=[name])
    put_hold(queue, "type", name)
    job_id = put(queue, name, uses={name: 2})
    told = [one["text"] for one in cli("explain", job_id, "--json").json["reasons"]]
    for text in told:
        command = shlex.split(text.split("`")[1])
        assert cli(*command[1:]).code == 0, command
    assert len(told) == 2
    assert cli("explain", job_id, "--json").json["reasons"] == []
