"""`sqljobs limit` and `group`, what jobs use, and limits of sqljobs.toml."""

from pathlib import Path

import pytest

from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli, program
from tests.schema.playing import put, set_off
from tests.schema.test_limit_settings import charge

KEYS = ["name", "kind", "group", "amount", "per", "used", "left", "holders", "each"]


def test_set_list_delete(cli: Cli, queue: Database) -> None:
    assert cli("limit", "list").out == "no limits: make one with `sqljobs limit set NAME`\n"
    assert cli("limit", "list", "--json").json == []
    assert cli("limit", "set", "gpu", "--resource", 3).out == "limit gpu: resource of 3\n"
    assert cli("limit", "set", "api", "--rate", "50", "--per", "10s").out == "limit api: rate of 50 per 10s\n"
    assert cli("limit", "set", "usd", "--budget", "1234.5", "--per", "day", "--each", "group").out == (
        "limit usd: budget of 1,234.5 per day for each group\n"
    )
    (own,) = cli("limit", "set", "usd", "--budget", "0", "--group", "acme", "--json").json
    assert list(own) == KEYS
    assert (own["group"], own["amount"], own["per"], own["each"]) == ("acme", 0, "day", "group")
    job_id = put(queue)
    set_off(queue, job_id)
    charge(queue, "gpu", job_id, 1_500_000)
    lines = cli("limit", "list", "--json").json
    assert [tuple(line[name] for name in KEYS) for line in lines] == [
        ("api", "rate", None, 50, 10, 0, 50, [], None),
        ("gpu", "resource", None, 3, None, 1.5, 1.5, [job_id], None),
        ("usd", "budget", None, 1234.5, "day", None, None, [], "group"),
        ("usd", "budget", "acme", 0, "day", 0, 0, [], "group"),
    ]
    assert cli("status", "--json").json["limits"] == lines
    table = [line.split() for line in cli("limit", "list").out.splitlines()]
    assert table == [
        ["LIMIT", "KIND", "GROUP", "USED", "AMOUNT", "PER", "LEFT", "HELD", "BY"],
        ["api", "rate", "0", "50", "10s", "50"],
        ["gpu", "resource", "1.5", "3", "1.5", str(job_id)],
        ["usd", "budget", "each", "1,234.5", "day"],
        ["usd", "budget", "acme", "0", "0", "day", "0"],
    ]
    assert "api" in cli("status").out
    assert cli("limit", "delete", "usd", "--group", "acme").out == "deleted limit usd of group acme\n"
    assert [line["name"] for line in cli("limit", "delete", "gpu", "--json").json] == ["gpu"]
    assert [line["name"] for line in cli("limit", "list", "--json").json] == ["api", "usd"]


@pytest.mark.usefixtures("queue")
def test_refused(cli: Cli) -> None:
    cli("limit", "set", "gpu", "--resource", 3)
    assert cli.refused(2, "limit", "set", "gpu", "--budget", 3) == ("limit 'gpu' is a resource limit: delete it first")
    assert "needs one of resource, rate, budget" in cli.refused(2, "limit", "set", "x")
    assert "not resource and budget" in cli.refused(2, "limit", "set", "x", "--resource", 1, "--budget", 1)
    assert "which needs per" in cli.refused(2, "limit", "set", "x", "--rate", 1)
    assert "resource must be a number from 0" in cli.refused(2, "limit", "set", "x", "--resource", "many")
    assert "each must be 'group'" in cli.refused(2, "limit", "set", "x", "--resource", 1, "--each", "job")
    assert cli.refused(1, "limit", "delete", "gpus") == (
        "there is no limit 'gpus' (did you mean 'gpu'?): `sqljobs limit list` shows those there are"
    )
    assert "group 'g' has no amount of limit 'gpu'" in cli.refused(1, "limit", "delete", "gpu", "--group", "g")
    assert cli("limit").code == 2
    assert cli("limit", "set").code == 2


@pytest.mark.usefixtures("queue")
def test_groups(cli: Cli) -> None:
    assert cli("group", "list").out.startswith("no group was given a weight")
    assert cli("group", "list", "--json").json == []
    assert cli("group", "set", "acme", "--weight", 5).out == "group acme has weight 5\n"
    assert cli("group", "set", "b", "--weight", 2, "--json").json == [{"group": "b", "weight": 2}]
    assert cli("group", "list", "--json").json == [{"group": "acme", "weight": 5}, {"group": "b", "weight": 2}]
    assert [line.split() for line in cli("group", "list").out.splitlines()][1:] == [["acme", "5"], ["b", "2"]]
    assert "weight must be a whole number from 1" in cli.refused(2, "group", "set", "b", "--weight", 0)
    assert cli("group", "set", "b").code == 2


def test_a_weight_is_seen_in_status(cli: Cli, queue: Database) -> None:
    put(queue, group="acme", weight=2)
    assert cli("status", "--json").json["groups"][0]["weight"] == 2
    cli("group", "set", "acme", "--weight", 7)
    assert cli("status", "--json").json["groups"][0]["weight"] == 7


@pytest.mark.usefixtures("queue")
def test_what_a_job_uses(cli: Cli) -> None:
    uses = ("--use", "gpu=1", "--use", "a=b=0.25", "--use", "usd=1000000")
    job_id = cli("enqueue", "t", *uses, "--json").json["id"]
    shown = cli("show", job_id, "--json").out
    assert '"uses": {"gpu": 1, "a=b": 0.25, "usd": 1000000}, "spent": null' in shown
    assert "uses      gpu 1, a=b 0.25, usd 1,000,000" in cli("show", job_id).out
    text = '{"type": "t", "uses": {"gpu": 0.1}}\n{"type": "t", "uses": {"gpu": "0.100000"}}'
    for one in cli("enqueue", "--batch", "-", "--json", stdin=text).json:
        assert cli("show", one["id"], "--json").json["uses"] == {"gpu": 0.1}


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    ("uses", "words"),
    [
        (["gpu"], "--use must be NAME=AMOUNT, not 'gpu'"),
        (["=1"], "--use must be NAME=AMOUNT, not '=1'"),
        (["gpu="], "--use 'gpu' must be a number from 0.000001"),
        (["gpu=0"], "--use 'gpu' must be a number from 0.000001"),
        (["gpu=0.0000015"], "--use 'gpu' must have at most six decimal places"),
        (["gpu=1", "gpu=2"], "--use 'gpu' is given twice"),
        ([" gpu=2"], "--use ' gpu' has a space"),
    ],
)
def test_uses_are_checked(cli: Cli, uses: list[str], words: str) -> None:
    given = [part for one in uses for part in ("--use", one)]
    assert words in cli.refused(2, "enqueue", "t", *given)


@pytest.mark.usefixtures("queue")
def test_uses_in_a_batch_are_checked(cli: Cli) -> None:
    assert "line 1: uses['gpu'] must be" in cli.refused(
        2, "enqueue", "--batch", "-", stdin='{"type": "t", "uses": {"gpu": 0}}'
    )
    assert "line 1: uses must map names" in cli.refused(2, "enqueue", "--batch", "-", stdin='{"type": "t", "uses": 3}')
    line = '{"type": "t", "container": true, "uses": {"gpu": 1}}'
    assert "never runs: give uses to its members" in cli.refused(2, "enqueue", "--batch", "-", stdin=line)


@pytest.mark.usefixtures("queue")
def test_run_creates_what_is_not_there(cli: Cli, folder: Path) -> None:
    (folder / "handlers.py").write_text("import sqljobs\n\n\n@sqljobs.handler\ndef t() -> None: ...\n")
    (folder / "sqljobs.toml").write_text(
        '[limits.gpu]\nresource = 2\n\n[limits."the api"]\nrate = 0.5\nper = "10s"\neach = "group"\n'
    )
    cli("limit", "set", "gpu", "--resource", 9)
    for _ in range(2):
        ended = program("run", "--handlers", "handlers.py", "--until-idle")
        assert ended.code == 0, ended.err
        lines = cli("limit", "list", "--json").json
        assert [(line["name"], line["amount"], line["per"]) for line in lines] == [
            ("gpu", 9, None),
            ("the api", 0.5, 10),
        ]
    (folder / "sqljobs.toml").write_text('[limits.gpu]\nbudget = 2\neach = "group"\ngroup = "g"\n')
    said = program("run", "--handlers", "handlers.py", "--until-idle")
    assert said.code == 2
    assert "limit 'gpu' is a resource limit: delete it first" in said.err
