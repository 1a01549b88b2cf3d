"""`sqljobs doctor` and `sqljobs drain` on rows alone."""

import pytest

from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli
from tests.schema.breaking import done_by_nobody, nobody_promotes
from tests.schema.breaking_graphs import blocked_by_nothing
from tests.schema.doctoring import long_ago, register_alice
from tests.schema.playing import put, states


def test_nothing_is_wrong(cli: Cli, queue: Database) -> None:
    put(queue)
    for flags in ([], ["--repair"]):
        said = cli("doctor", *flags)
        assert (said.code, said.out, said.err) == (0, "nothing is wrong\n", "")
        assert cli("doctor", *flags, "--json").json == {"clean": True, "findings": []}


def test_counters_are_repaired(cli: Cli, queue: Database) -> None:
    ids = [blocked_by_nothing(queue) for _ in range(25)]
    said = cli("doctor")
    assert said.code == 1
    named = ", ".join(map(str, ids[:20]))
    assert said.out.splitlines() == [
        f"broken: blocked: blocked without anything to wait for, or not blocked with it: 25 jobs ({named} and 5 more)",
        "counters can be computed anew: run `sqljobs doctor --repair`",
    ]
    found = cli("doctor", "--json")
    assert (found.code, found.json["clean"]) == (1, False)
    (finding,) = found.json["findings"]
    assert finding.keys() == {"code", "text", "count", "job_ids", "repaired", "warning"}
    assert (finding["code"], finding["count"], finding["repaired"]) == ("blocked", 25, 0)
    mended = cli("doctor", "--repair")
    assert mended.code == 0
    assert mended.out.startswith("repaired: blocked: ")
    assert set(states(queue, ids)) == {"ready"}
    assert cli("doctor").code == 0


def test_what_cannot_be_repaired_is_said(cli: Cli, queue: Database) -> None:
    job_id = done_by_nobody(queue)
    blocked_by_nothing(queue)
    for _ in range(2):
        said = cli("doctor", "--repair", "--json")
        assert (said.code, said.json["clean"]) == (1, False)
    lines = cli("doctor", "--repair").out.splitlines()
    assert lines[0].startswith("broken: done_without_attempt: ")
    assert lines[0].endswith(f": job {job_id}")
    assert lines[1].startswith("what is left cannot be repaired by itself: look with `sqljobs show ID`")
    assert len(lines) == 2


def test_what_is_late_is_a_warning(cli: Cli, queue: Database) -> None:
    register_alice(queue, started_at=long_ago().replace(year=2020))
    job_id = nobody_promotes(queue)
    said = cli("doctor")
    assert said.code == 0
    assert said.out == f"warning: overdue: due for long, and no supervisor has made it ready: job {job_id}\n"
    assert cli("doctor", "--json").json["clean"]


@pytest.mark.usefixtures("folder")
def test_no_database(cli: Cli) -> None:
    assert "run `sqljobs init`" in cli.refused(4, "doctor")
    assert "run `sqljobs init`" in cli.refused(4, "drain", "x")


def test_drain_of_one_that_lives(cli: Cli, queue: Database) -> None:
    register_alice(queue)
    said = cli("drain", "alice")
    assert said.code == 0
    assert said.out.startswith("alice (pid 1 on h) drains from its next heartbeat on: ")
    assert cli("drain", "alice", "--json").json == [{"name": "alice", "host": "h", "pid": 1, "state": "running"}]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "there is no supervisor 'Alice': `sqljobs status` shows those that run"),
        ({"state": "gone", "name_slot": None}, "supervisor 'alice' is gone: `sqljobs status` shows those that run"),
        ({"heartbeat_at": long_ago()}, "supervisor 'alice' is gone: `sqljobs status` shows those that run"),
    ],
)
def test_drain_of_one_that_does_not(cli: Cli, queue: Database, values: dict[str, object], line: str) -> None:
    register_alice(queue, **values)
    assert cli.refused(1, "drain", "alice" if values else "Alice") == line


def test_one_that_drains_already(cli: Cli, queue: Database) -> None:
    register_alice(queue, state="draining")
    assert cli("drain", "alice").out == "alice (pid 1 on h) is draining already\n"
    assert cli("drain").code == 2
