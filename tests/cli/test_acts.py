"""`sqljobs cancel` and `sqljobs retry`."""

import pytest

from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli
from tests.schema.playing import put, row, run, set_off, states

FAILED = Outcome(Cause.FAIL, error="no")


def test_cancel_one(cli: Cli, queue: Database) -> None:
    job_id = put(queue)
    after = put(queue, after=[job_id])
    said = cli("cancel", job_id)
    assert (said.code, said.out) == (0, f"cancelled job {job_id}\n")
    assert states(queue, [job_id, after]) == ["cancelled", "cancelled"]
    assert cli("cancel", job_id, "--json").json == []
    assert cli("cancel", job_id).out == "cancelled no jobs: none is open that is not being cancelled already\n"


def test_cancel_what_runs_is_a_request(cli: Cli, queue: Database) -> None:
    job_id = put(queue)
    set_off(queue, job_id)
    said = cli("cancel", job_id, "--now")
    assert said.code == 0
    assert said.out == f"asked for the end of job {job_id}: its supervisor kills it within a heartbeat\n"
    assert row(queue, job_id).state == "running"
    assert row(queue, job_id).cancel_requested_at is not None
    assert row(queue, job_id).cancel_now


def test_what_ended_otherwise(cli: Cli, queue: Database) -> None:
    job_id = put(queue)
    run(queue, job_id)
    assert cli.refused(1, "cancel", job_id) == f"job {job_id} cannot be cancelled: it is done"
    assert cli.refused(1, "retry", job_id) == f"job {job_id} cannot be retried: it is done"


@pytest.mark.parametrize("command", ["cancel", "retry"])
def test_several_need_yes(cli: Cli, queue: Database, command: str) -> None:
    ids = [put(queue), put(queue)]
    if command == "retry":
        for job_id in ids:
            run(queue, job_id, FAILED)
    before = states(queue, ids)
    for selection in (ids, ["--type", "t"]):
        line = cli.refused(2, command, *selection)
        assert line == f"this would {command} 2 jobs (1, 2): add --yes, or look first with --dry-run"
        assert cli(command, *selection, "--dry-run", "--json").json == ids
        assert cli(command, *selection, "--dry-run").out == f"would {command} 2 jobs (1, 2)\n"
    assert states(queue, ids) == before
    assert cli(command, "--type", "t", "--yes", "--json").json == ids
    assert states(queue, ids) == (["cancelled"] * 2 if command == "cancel" else ["ready"] * 2)


@pytest.mark.parametrize("command", ["cancel", "retry"])
@pytest.mark.usefixtures("queue")
def test_no_selection_and_no_match(cli: Cli, command: str) -> None:
    assert cli.refused(2, command).startswith(f"{command} which jobs?")
    assert cli.refused(2, command, "--yes").startswith(f"{command} which jobs?")
    for selection in (["--type", "none"], ["--state", "failed"], ["--since", "1h"], ["--key", "none"]):
        said = cli(command, *selection, "--json")
        assert (said.code, said.json) == (0, [])


def test_filters_mean_what_can_be_acted_upon(cli: Cli, queue: Database) -> None:
    ids = [put(queue, group="g") for _ in range(4)]
    run(queue, ids[0])
    run(queue, ids[1], FAILED)
    cli("cancel", ids[2])
    assert cli("cancel", "--group", "g", "--dry-run", "--json").json == [ids[3]]
    assert cli("retry", "--group", "g", "--dry-run", "--json").json == [ids[1]]
    assert cli("retry", "--group", "g", "--state", "cancelled", "--json").json == [ids[2]]
    assert "it is done" in cli.refused(1, "cancel", "--group", "g", "--state", "done")


def test_all_or_none(cli: Cli, queue: Database) -> None:
    ids = [put(queue), put(queue)]
    run(queue, ids[1])
    assert f"job {ids[1]} cannot be cancelled" in cli.refused(1, "cancel", *ids, "--yes")
    assert "there is no job 999" in cli.refused(1, "cancel", ids[0], 999, "--yes")
    assert states(queue, ids) == ["ready", "done"]


def test_retry_reopens(cli: Cli, queue: Database) -> None:
    job_id = put(queue)
    after = put(queue, after=[job_id])
    last = put(queue, after=[after])
    run(queue, job_id, FAILED)
    line = cli.refused(1, "retry", last)
    assert line == f"job {last} was cancelled because of job {job_id}: retry {job_id}, which reopens it"
    would = cli("retry", job_id, "--dry-run")
    assert would.out == f"would retry job {job_id}, which reopens 2 jobs ({after}, {last})\n"
    assert cli("retry", job_id, "--json").json == [job_id, after, last]
    assert states(queue, [job_id, after, last]) == ["ready", "blocked", "blocked"]


def test_many(cli: Cli, queue: Database) -> None:
    ids = [put(queue) for _ in range(30)]
    line = cli.refused(2, "cancel", "--state", "ready")
    assert line.startswith("this would cancel 30 jobs (1, 2, 3,")
    assert "20 and 10 more): add --yes" in line
    assert cli("cancel", "--state", "ready", "--yes", "--json").json == ids
