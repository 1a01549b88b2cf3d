"""`doctor --repair`: counters come right, and the states that follow; nothing else is touched, nobody is overtaken."""

import pytest
from sqlalchemy import Engine, insert, update

import sqljobs
from sqljobs.schema.doctor import check_up
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.repair import AT_ONCE, repair_counters
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.schema.breaking import done_by_nobody, leased_to_nobody
from tests.schema.breaking_graphs import counts_too_many_children, never_satisfied
from tests.schema.doctoring import blocked_pair, change, change_edges, family, now, register_alice
from tests.schema.locks import waits_for_lock
from tests.schema.playing import end, put, row, run, set_off, states
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _alice(database: Database) -> None:
    register_alice(database)


def repaired(engine: Engine) -> dict[str, tuple[int, int]]:
    """Code -> (count, repaired)."""
    return {one.code: (one.count, one.repaired) for one in sqljobs.doctor(engine, repair=True)}


def test_a_job_that_waits_for_nothing_goes_on(engine: Engine, database: Database) -> None:
    first = put(database)
    ids = [put(database, after=[first], run_after=when) for when in (None, None, "1h")]
    run(database, first)
    for job_id in ids:
        change(database, job_id, state="blocked", unmet_deps=3)
    assert repaired(engine) == {"unmet_deps": (3, 3)}
    assert states(database, ids) == ["ready", "ready", "scheduled"]
    assert [row(database, job_id).unmet_deps for job_id in ids] == [0, 0, 0]
    assert sqljobs.doctor(engine) == []
    run(database, ids[0])


def test_a_job_that_waits_for_no_failure_does_not_run(engine: Engine, database: Database) -> None:
    """Waiting for nothing more is not enough for one that is there to follow a bad end; what waits for it goes on."""
    first = put(database)
    notice = put(database, after_failed=[first])
    last = put(database, after=[notice])
    run(database, first)
    for job_id in (notice, last):
        change(database, job_id, state="blocked", unmet_deps=1, ended_at=None, reason=None, reason_text=None)
    change_edges(database, last, satisfied=False, checked=True)
    assert repaired(engine)["unmet_deps"] == (1, 1)
    assert states(database, [notice, last]) == ["cancelled", "ready"]
    assert row(database, notice).reason == "not_needed"
    assert sqljobs.doctor(engine) == []


@pytest.mark.parametrize("state", ["ready", "scheduled"])
def test_a_job_that_must_wait_is_blocked_again(engine: Engine, database: Database, state: str) -> None:
    first, second = blocked_pair(database)
    change(database, second, state=state, unmet_deps=0, run_after=now())
    found = repaired(engine)
    assert found.items() >= {"unmet_deps": (1, 1), "ready": (1, 1)}.items()
    assert (row(database, second).state, row(database, second).unmet_deps) == ("blocked", 1)
    run(database, first)
    assert states(database, [second]) == ["ready"]
    assert sqljobs.doctor(engine) == []


def test_what_runs_already_cannot_be_un_run(engine: Engine, database: Database) -> None:
    first, second = blocked_pair(database)
    change(database, second, state="ready", unmet_deps=0)
    (lease,) = set_off(database, second)
    assert repaired(engine) == {"unmet_deps": (1, 0)}
    assert states(database, [second]) == ["running"]
    end(database, lease.fence)
    assert repaired(engine) == {"unmet_deps": (1, 1)}
    run(database, first)
    assert sqljobs.doctor(engine) == []


def test_counters_of_ended_jobs(engine: Engine, database: Database) -> None:
    first, second = blocked_pair(database)
    run(database, first, Outcome(Cause.FAIL, error="no"))
    change(database, second, unmet_deps=0)
    assert repaired(engine) == {"unmet_deps": (1, 1)}
    assert (row(database, second).state, row(database, second).unmet_deps) == ("cancelled", 1)


def test_children_are_counted_anew(engine: Engine, database: Database) -> None:
    parent, child = family(database)
    for outcome in (Outcome(Cause.DONE), Outcome(Cause.FAIL, error="no"), Outcome(Cause.CANCELLED)):
        run(database, put(database, parent=parent), outcome)
    change(database, parent, open_children=7, done_children=0, failed_children=3, cancelled_children=0)
    assert repaired(engine) == {"children": (1, 1)}
    mended = row(database, parent)
    counters = (mended.open_children, mended.done_children, mended.failed_children, mended.cancelled_children)
    assert (mended.state, counters) == ("waiting", (1, 1, 1, 1))
    assert child
    assert sqljobs.doctor(engine) == []


def test_nothing_but_counters_is_touched(engine: Engine, database: Database) -> None:
    broken = [never_satisfied(database), done_by_nobody(database), leased_to_nobody(database)]
    before = [row(database, job_id) for job_id in broken]
    mended = counts_too_many_children(database)
    expected = dict.fromkeys(("unsatisfied", "done_without_attempt", "unknown_owner"), (1, 0))
    assert repaired(engine) == expected | {"children": (1, 1)}
    assert [row(database, job_id) for job_id in broken] == before
    assert row(database, mended).open_children == 1
    assert {finding.code for finding in sqljobs.doctor(engine) if finding.is_broken} == expected.keys()


def test_more_than_one_batch_and_slice(engine: Engine, database: Database) -> None:
    with engine.begin() as conn:
        ids = sqljobs.enqueue_many(conn, [sqljobs.JobSpec("t") for _ in range(AT_ONCE + 5)])
        conn.execute(update(jobs).values(state="blocked"))
    (finding,) = check_up(database, repair=True, jobs_at_once=AT_ONCE + 2)
    assert (finding.code, finding.count, finding.repaired, finding.is_broken) == ("blocked", len(ids), len(ids), False)
    assert sqljobs.doctor(engine) == []


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_finalize_in_progress_is_waited_for(engine: Engine, database: Database, stage: Stage) -> None:
    first, second = blocked_pair(database)
    with engine.begin() as conn:
        other = {"job_id": second, "depends_on_id": put(database), "kind": "ok", "position": 1}
        conn.execute(insert(job_deps).values(**other, satisfied=False, checked=True))
    (lease,) = set_off(database, first)
    ending = stage.actor(lambda: end(database, lease.fence))
    ending.until("finalize.commit")
    mending = stage.actor(lambda: repair_counters(database, [second]))
    mending.go()
    wait_until(lambda: waits_for_lock(database), what="the repair to wait for the dependent's row")
    ending.finish()
    mending.finish()
    assert (row(database, second).state, row(database, second).unmet_deps) == ("blocked", 1)
    change_edges(database, second, satisfied=True)
    change(database, second, unmet_deps=0)
    mending = stage.actor(lambda: repair_counters(database, [second]))
    mending.finish()
    assert states(database, [second]) == ["ready"]
