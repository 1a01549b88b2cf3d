"""`sqljobs list`, `show`, `status` and `wait`."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

import sqljobs
from sqljobs.schema.columns import JsonText
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli
from tests.schema.playing import put, run, set_off

TRACEBACK = (
    'Traceback (most recent call last):\n  File "h.py", line 3, in h\n    boom()\nValueError: [red]no[/red] \x1b[31m'
)
SHOW_KEYS = [
    *("id", "type", "state", "reason", "args", "result", "error", "attempt", "max_attempts", "group", "weight"),
    *("priority", "key", "container", "parent", "children", "child_counts", "after", "run_after", "timeout", "memory"),
    *("uses", "spent", "devices", "progress", "lease_owner", "lease_expires", "heartbeat_at", "created_at"),
    *("updated_at", "started_at", "ended_at", "attempts"),
]


@pytest.fixture
def jobs(queue: Database) -> dict[str, int]:
    """One job of each kind, by name."""
    made = {"done": put(queue, "resize", {"n": 1}, group="acme", key="k1", weight=2)}
    made["failed"] = put(queue, "resize", max_attempts=1)
    made["blocked"] = put(queue, "merge", after=[made["done"], made["failed"]])
    made["doomed"] = put(queue, "merge", after=[made["failed"]])
    made["scheduled"] = put(queue, "later", run_after="1h")
    made["running"] = put(queue, "work")
    made["ready"] = put(queue, "[b]odd[/b]", group="acme")
    run(queue, made["done"], Outcome(Cause.DONE, result=JsonText('{"size": 12}')))
    made["waits"] = put(queue, "merge", after=[made["running"]])
    set_off(queue, made["running"])
    run(queue, made["failed"], Outcome(Cause.ERROR, error=TRACEBACK))
    return made


def ids(cli: Cli, *args: object) -> list[int]:
    said = cli("list", "--ids", *args)
    assert (said.code, said.err) == (0, "")
    return [int(line) for line in said.out.splitlines()]


def test_list_json(cli: Cli, jobs: dict[str, int]) -> None:
    listed = {job["id"]: job for job in cli("list", "--json").json}
    assert list(listed) == sorted(jobs.values(), reverse=True)
    for job in listed.values():
        assert {"id", "type", "state", "group", "reason", "attempt", "progress"} <= job.keys()
        shown = cli("show", job["id"], "--json").json
        assert job == {name: shown[name] for name in job}
    assert listed[jobs["waits"]]["reason"]["job_id"] == jobs["running"]
    assert listed[jobs["failed"]]["reason"]["code"] == "error"


def test_list_selects(cli: Cli, jobs: dict[str, int]) -> None:
    assert set(ids(cli, "--state", "ready")) == {jobs["ready"]}
    assert set(ids(cli, "--state", "ready", "--state", "failed")) == {jobs["ready"], jobs["failed"]}
    assert set(ids(cli, "--type", "resize")) == {jobs["done"], jobs["failed"]}
    assert set(ids(cli, "--type", "resize", "--group", "acme")) == {jobs["done"]}
    assert set(ids(cli, "--group", "acme", "--group", "default")) == set(jobs.values())
    assert ids(cli, "--key", "k1") == [jobs["done"]]
    assert ids(cli, "--cause", "error") == [jobs["failed"]]
    assert ids(cli, "--parent", 1) == []
    assert ids(cli, jobs["done"], jobs["ready"], jobs["done"]) == [jobs["ready"], jobs["done"]]
    assert ids(cli, jobs["done"], jobs["ready"], "--state", "done") == [jobs["done"]]
    assert len(ids(cli, "--limit", 3)) == 3
    assert ids(cli, jobs["done"], jobs["ready"], "--limit", 1) == [jobs["ready"]]
    assert cli("list", "--type", "none", "--json").json == []
    assert cli("list", "--type", "none").out == "no jobs\n"


def test_list_since(cli: Cli, queue: Database, jobs: dict[str, int]) -> None:
    with queue.engine.begin() as conn:
        old = (datetime.now(UTC) - timedelta(hours=3)).strftime("%Y-%m-%d %H:%M:%S.%f")
        conn.execute(text("UPDATE jobs SET updated_at = :old WHERE id = :id"), {"old": old, "id": jobs["ready"]})
    assert jobs["ready"] not in ids(cli, "--since", "2h")
    assert len(ids(cli, "--since", "2h")) == len(jobs) - 1
    assert len(ids(cli, "--since", "4h")) == len(jobs)
    assert len(ids(cli, "--since", "1000000d")) == len(jobs)
    assert len(ids(cli, "--since", "2026-01-01T00:00:00+01:00")) == len(jobs)
    assert "has no UTC offset" in cli.refused(2, "list", "--since", "2026-01-01T00:00:00")
    assert "--since must be" in cli.refused(2, "list", "--since", "yesterday")


@pytest.mark.parametrize("command", ["list", "show", "wait", "cancel", "retry"])
@pytest.mark.parametrize("job_id", ["999", "0", "99999999999999999999999"])
@pytest.mark.usefixtures("queue")
def test_an_unknown_id(cli: Cli, command: str, job_id: str) -> None:
    assert cli.refused(1, command, job_id) == f"there is no job {job_id}; `sqljobs list` shows those there are"


def test_list_for_people(cli: Cli, jobs: dict[str, int]) -> None:
    lines = cli("list").out.splitlines()
    assert lines[0].split() == ["ID", "STATE", "TYPE", "GROUP", "KEY", "ATTEMPT", "CHANGED", "WHY"]
    assert len(lines) == len(jobs) + 1
    by_id = {int(line.split()[0]): line for line in lines[1:]}
    assert "[b]odd[/b]" in by_id[jobs["ready"]]
    assert f"waits for job {jobs['running']}" in by_id[jobs["waits"]]
    assert "waits for its time, in " in by_id[jobs["scheduled"]]
    assert "ValueError: [red]no[/red] \\x1b[31m" in by_id[jobs["failed"]]


def test_show_json(cli: Cli, queue: Database, jobs: dict[str, int]) -> None:
    for job_id in jobs.values():
        shown = cli("show", job_id, "--json").json
        assert list(shown) == SHOW_KEYS
        with queue.engine.connect() as conn:
            assert shown == sqljobs.get_job(conn, job_id).as_json()


def test_show_for_people(cli: Cli, jobs: dict[str, int]) -> None:
    shown = cli("show", jobs["failed"]).out
    assert shown.startswith(f"Job {jobs['failed']}  resize  failed\nValueError: [red]no[/red] \\x1b[31m\n")
    assert "attempts  1 of at most 1" in shown
    assert "\n1  error  " in shown
    assert '\n    File "h.py", line 3, in h\n' in shown
    assert "\x1b" not in shown
    done = cli("show", jobs["done"]).out
    assert 'result    {"size": 12}' in done
    assert "key       k1" in done
    blocked = cli("show", jobs["waits"]).out
    assert f"waits for job {jobs['running']}" in blocked
    assert f"Waits for\n  ID  STATE    RUNS\n   {jobs['running']}  running  after it is done\n" in blocked
    assert "leased by     alice" in cli("show", jobs["running"]).out
    assert cli("show", jobs["scheduled"]).code == 0


def test_status(cli: Cli, jobs: dict[str, int]) -> None:
    found = cli("status", "--json").json
    assert list(found) == [
        *("version", "schema_version", "database", "wakeup", "states", "groups", "oldest_ready_seconds"),
        *("limits", "holds", "supervisors", "progress"),
    ]
    assert (found["version"], found["database"], found["wakeup"]) == (sqljobs.__version__, "sqlite", "poll")
    assert sum(found["states"].values()) == len(jobs)
    assert found["states"]["running"] == 1
    shown = cli("status").out
    assert f"sqljobs {sqljobs.__version__}, tables of version" in shown
    assert "1 ready" in shown
    assert "No supervisor has run here yet" in shown


@pytest.mark.usefixtures("queue")
def test_status_of_nothing(cli: Cli) -> None:
    assert "no jobs" in cli("status").out


@pytest.mark.parametrize(
    ("names", "code"),
    [(["done"], 0), (["failed"], 1), (["done", "doomed"], 1), (["done", "failed", "done"], 1), ([], 2)],
)
def test_wait(cli: Cli, jobs: dict[str, int], names: list[str], code: int) -> None:
    wanted = [jobs[name] for name in names]
    said = cli("wait", *wanted, "--json")
    assert said.code == code
    if names:
        assert said.json == [cli("show", job_id, "--json").json for job_id in wanted]
        assert said.err == ""


def test_wait_times_out(cli: Cli, jobs: dict[str, int]) -> None:
    call = ("wait", jobs["done"], jobs["running"], "--timeout", "10ms")
    said = cli(*call, "--json")
    assert said.code == 3
    assert [job["state"] for job in said.json] == ["done", "running"]
    assert said.line.startswith(f"1 of 2 jobs have not ended, job {jobs['running']} among them; wait on")
    assert cli(*call).code == 3
    assert "--timeout must be" in cli.refused(2, "wait", jobs["done"], "--timeout", "soon")


def test_wait_takes_not_needed_as_well(cli: Cli, queue: Database) -> None:
    job_id = put(queue, "t")
    cli("cancel", job_id)
    assert cli("wait", job_id).code == 1
    with queue.engine.begin() as conn:
        conn.execute(text("UPDATE jobs SET reason = 'not_needed'"))
    assert cli("wait", job_id).code == 0


def test_large_values_are_cut_for_people_only(cli: Cli, queue: Database) -> None:
    args: Any = {"x": "y" * 100_000}
    job_id = put(queue, "t", args)
    assert len(cli("show", job_id).out) < 3000
    assert json.loads(cli("show", job_id, "--json").out)["args"] == args
