"""Containers on the command line: made, filled, cancelled, retried, skipped, waited for."""

import json
from pathlib import Path
from typing import Any

from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli
from tests.schema.playing import put, row, run, set_off, states

FAILED = Outcome(Cause.FAIL, error="no")


def batch(tmp_path: Path, *lines: dict[str, Any]) -> Path:
    path = tmp_path / "jobs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_container_and_its_members(cli: Cli, queue: Database) -> None:
    box = cli("enqueue", "box", "--container", "--json").json["id"]
    words = f"waits for its first member; add one with enqueue --parent {box}, or cancel it"
    assert words in cli("show", box).out
    assert words in cli("list").out
    assert (cli("show", box, "--json").json["reason"], cli("list", "--json").json[0]["reason"]) == (None, None)
    member = cli("enqueue", "t", "--parent", box, "--json").json["id"]
    assert states(queue, [box, member]) == ["waiting", "ready"]
    assert "first member" not in cli("show", box).out + cli("list").out
    shown = cli("show", box, "--json").json
    assert (shown["container"], shown["children"], shown["child_counts"]["open"]) == (True, [member], 1)
    assert cli("show", member, "--json").json["parent"] == box
    assert [one["id"] for one in cli("list", "--parent", box, "--json").json] == [member]
    run(queue, member)
    assert cli("wait", box).code == 0
    assert cli.refused(1, "enqueue", "t", "--parent", box) == f"job {box} takes no members: it is done"
    assert "there is no job 999" in cli.refused(1, "enqueue", "t", "--parent", 999)
    assert "never runs" in cli.refused(2, "enqueue", "box", "--container", "--timeout", "5m")


def test_a_batch_with_containers_in_any_order(cli: Cli, queue: Database, tmp_path: Path) -> None:
    path = batch(
        tmp_path,
        {"ref": "join", "type": "t", "after": ["outer"]},
        {"type": "t", "parent": "inner"},
        {"ref": "inner", "type": "box", "container": True, "parent": "outer"},
        {"ref": "outer", "type": "box", "container": True},
        {"ref": "empty", "type": "box", "container": True},
    )
    ids = [one["id"] for one in cli("enqueue", "--batch", path, "--json").json]
    assert states(queue, ids) == ["blocked", "ready", "waiting", "waiting", "done"]
    assert [row(queue, i).parent_id for i in ids[:4]] == [None, ids[2], ids[3], None]
    refused = batch(tmp_path, {"type": "t", "parent": ids[4]})
    assert cli.refused(1, "enqueue", "--batch", refused) == f"job {ids[4]} takes no members: it is done"
    run(queue, ids[1], FAILED)
    assert cli("wait", ids[3]).code == 1
    assert states(queue, ids[:4]) == ["cancelled", "failed", "failed", "failed"]


def test_acts_on_containers(cli: Cli, queue: Database) -> None:
    box = put(queue, "box", container=True)
    running, ready = put(queue, parent=box), put(queue, parent=box)
    follower = put(queue, after=[box])
    set_off(queue, running)
    assert cli("cancel", box, "--dry-run", "--json").json == [box, running, ready]
    said = cli("cancel", box)
    assert said.out.splitlines() == [
        f"cancelled job {ready}",
        f"asked for the end of 2 jobs ({box}, {running}): its supervisor stops it within a heartbeat",
    ]
    other = put(queue, "box", container=True)
    bad, good = put(queue, parent=other), put(queue, parent=other)
    waits = put(queue, after=[other])
    run(queue, good)
    run(queue, bad, FAILED)
    assert cli("retry", other, "--dry-run").out == f"would retry job {other}, which reopens 2 jobs ({bad}, {waits})\n"
    assert cli("skip", bad, "--result", "{", "--json").code == 2
    assert cli("skip", bad, "--result", '{"rows": 0}').out == (
        f"skipped job {bad}, which skips or reopens 2 jobs ({other}, {waits})\n"
    )
    assert states(queue, [bad, other, waits, follower]) == ["done", "done", "ready", "blocked"]
    assert row(queue, bad).result == {"rows": 0}
    assert cli("show", bad, "--json").json["reason"]["code"] == "skipped"
    assert cli.refused(1, "skip", bad) == f"job {bad} cannot be skipped: it is done"
    assert "there is no job 999" in cli.refused(1, "skip", 999)


def test_filters_leave_out_what_another_job_has_closed(cli: Cli, queue: Database) -> None:
    bad = put(queue)
    doomed, cancelled = put(queue, after=[bad]), put(queue)
    run(queue, bad, FAILED)
    cli("cancel", cancelled)
    assert states(queue, [doomed, cancelled]) == ["cancelled", "cancelled"]
    assert cli("retry", "--state", "cancelled", "--yes", "--json").json == [cancelled]
    assert "retry 1, which reopens it" in cli.refused(1, "retry", doomed)
