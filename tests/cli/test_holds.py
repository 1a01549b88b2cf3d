"""`sqljobs hold` and `release`, and what the other commands show of them."""

import pytest

from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli, on_terminal
from tests.schema.playing import put
from tests.schema.proxy import Loss
from tests.schema.test_commit_unknown import BreakingSQLite


@pytest.mark.usefixtures("queue")
def test_hold_and_release(cli: Cli) -> None:
    assert cli("hold", "type", "resize", "--reason", "bad disk").out == "held type resize\n"
    (held,) = cli("hold", "group", "acme", "--until", "2099-01-02T03:04:05+01:00", "--json").json
    assert list(held) == ["kind", "name", "reason", "since", "until"]
    assert (held["kind"], held["name"], held["reason"]) == ("group", "acme", None)
    assert held["until"] == "2099-01-02T02:04:05.000000Z"
    assert cli("hold", "all").out == "held all jobs\n"
    holds = cli("status", "--json").json["holds"]
    assert [(hold["kind"], hold["name"], hold["reason"]) for hold in holds] == [
        ("all", None, None),
        ("group", "acme", None),
        ("type", "resize", "bad disk"),
    ]
    assert holds[1] == held
    lines = [line.split() for line in cli("status").out.splitlines()]
    since = holds[2]["since"][:19].replace("T", " ") + "Z"
    assert ["HELD", "NAME", "SINCE", "UNTIL", "REASON"] in lines
    assert ["type", "resize", *since.split(), "bad", "disk"] in lines
    assert cli("release", "all").out == "released all jobs\n"
    assert len(cli("status", "--json").json["holds"]) == 2
    assert cli("release", "group", "acme", "--json").json == [held]
    assert cli("release", "type", "resize").out == "released type resize\n"


@pytest.mark.usefixtures("queue")
def test_release_what_is_not_held(cli: Cli) -> None:
    said = cli("release", "type", "resize")
    assert (said.code, said.out) == (0, "type resize is not held: `sqljobs status` shows the holds there are\n")
    assert cli("release", "all").out.startswith("all jobs are not held")
    said = cli("release", "job", 999, "--json")
    assert (said.code, said.json) == (0, [])


def test_a_held_job(cli: Cli, queue: Database) -> None:
    job_id = put(queue)
    assert cli("hold", "job", job_id, "--until", "2h", "--reason", "wait").out.startswith(f"held job {job_id} until 2")
    listed = cli("list", "--json").json[0]
    assert listed["reason"]["code"] == "hold"
    assert listed["reason"]["text"] == f"job {job_id} is held: wait"
    assert listed["reason"]["until"] == cli("status", "--json").json["holds"][0]["until"]
    assert cli("show", job_id, "--json").json["reason"] == listed["reason"]
    assert f"job {job_id} is held: wait, ends in " in cli("list").out
    assert f"\njob {job_id} is held: wait, ends in " in cli("show", job_id).out
    assert "which is past: nothing is held" in cli("hold", "job", job_id, "--until", "2020-01-01T00:00:00Z").out
    assert cli("list", "--json").json[0]["reason"] is None


@pytest.mark.usefixtures("queue")
def test_dry_run_and_yes(cli: Cli) -> None:
    assert cli("hold", "all", "--dry-run").out == "would hold all jobs\n"
    assert cli("status", "--json").json["holds"] == []
    assert cli("hold", "all", "--yes").code == 0
    assert cli("release", "all", "--dry-run").out == "would release all jobs\n"
    assert len(cli("status", "--json").json["holds"]) == 1
    assert cli("release", "all", "--yes").code == 0
    assert cli("status", "--json").json["holds"] == []


@pytest.mark.usefixtures("queue")
def test_refused(cli: Cli) -> None:
    assert cli.refused(1, "hold", "job", 999) == "there is no job 999; `sqljobs list` shows those there are"
    assert "a job id is a whole number" in cli.refused(2, "hold", "job", "x")
    assert "which type? Name it" in cli.refused(2, "hold", "type")
    assert "which group? Name it" in cli.refused(2, "release", "group")
    assert "leave the name 't' out" in cli.refused(2, "hold", "all", "t")
    assert "until must be a time" in cli.refused(2, "hold", "all", "--until", "tomorrow")
    assert "has no UTC offset" in cli.refused(2, "hold", "all", "--until", "2099-01-01T00:00:00")
    assert cli("hold", "jobs", "1").code == 2
    assert cli("hold").code == 2


@pytest.mark.usefixtures("queue")
def test_nothing_of_a_reason_is_obeyed(cli: Cli) -> None:
    cli("hold", "type", "[b]t[/b]", "--reason", "one\n\x1b[31mtwo")
    shown = cli("status").out
    assert "[b]t[/b]" in shown
    assert "one \\x1b[31mtwo" in shown


@pytest.mark.usefixtures("queue")
def test_on_a_narrow_terminal(cli: Cli) -> None:
    cli("hold", "type", "resize", "--reason", "a disk that is bad " * 10)
    cli("limit", "set", "gpu", "--resource", 3)
    shown = on_terminal("status", columns=40)
    assert shown.code == 0
    assert "resize" in shown.out
    assert "gpu" in shown.out


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER], ids=["never arrived", "carried out"])
def test_a_lost_commit_is_repeated(cli: Cli, queue: Database, monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    def breaking(*_args: object) -> BreakingSQLite:
        return BreakingSQLite([loss])

    def call(*args: object) -> str:
        with monkeypatch.context() as patch:
            patch.setattr("sqljobs.schema.transactions.dialect_for", breaking)
            said = cli(*args)
        assert (said.code, said.err) == (0, "")
        return said.out

    del queue
    assert call("hold", "all") == "held all jobs\n"
    assert call("release", "all") == "released all jobs\n"
    assert call("limit", "set", "x", "--resource", 1) == "limit x: resource of 1\n"
    assert call("limit", "delete", "x") == "deleted limit x\n"
    assert call("group", "set", "g", "--weight", 2) == "group g has weight 2\n"
    status = cli("status", "--json").json
    assert (status["holds"], status["limits"]) == ([], [])
