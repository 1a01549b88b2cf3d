"""What a job's end does to those that wait for it, and that no edge is ever missed, whoever commits first."""

import pytest
from sqlalchemy import update

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.glance import glance
from sqljobs.schema.late_edges import check_edges, settle_ended
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import Wanted
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.schema.locks import waits_for_lock
from tests.schema.playing import (
    DONE,
    count_states,
    edges,
    end,
    end_settled,
    lease,
    put,
    row,
    run,
    set_off,
    states,
    work_off_all,
)
from tests.waiting import wait_until

FAILED = Outcome(Cause.FAIL)
servers = pytest.mark.databases("postgresql", "mariadb", "mysql")


def settle_all(database: Database) -> int:
    """What a supervisor's duties do about edges; returns how many upstreams were looked at."""
    looked = 0
    while database.read("look", lambda tx: glance(tx, Wanted(["t"]))).unchecked:
        count, ended = database.transaction("check", check_edges)
        for upstream in ended:
            database.transaction("settle", lambda tx, upstream=upstream: settle_ended(tx, upstream))  # type: ignore[misc]
        assert count, "an unchecked edge whose upstream nobody holds was not looked at"
        looked += count
    return looked


def put_all(database: Database, *specs: JobSpec) -> list[int]:
    with database.engine.begin() as conn:
        return sqljobs.enqueue_many(conn, specs)


def test_last_of_several_unblocks(database: Database) -> None:
    ups = [put(database) for _ in range(3)]
    dependent = put(database, after=ups)
    for number, job_id in enumerate(ups):
        assert row(database, dependent).state == "blocked"
        assert row(database, dependent).unmet_deps == 3 - number
        run(database, job_id)
    assert (row(database, dependent).state, row(database, dependent).unmet_deps) == ("ready", 0)
    assert all(edge.satisfied and edge.checked for edge in edges(database, dependent))
    assert settle_all(database) == 0


@pytest.mark.parametrize("cause", [Cause.FAIL, Cause.CANCELLED])
def test_bad_end_goes_down_the_graph(database: Database, cause: Cause) -> None:
    """Every job below names the root of it, once, by whatever way; what has another reason to end keeps it."""
    root, good = put(database), put(database)
    left, right = JobSpec("t", key="left", after=[root]), JobSpec("t", after=[root, good])
    bottom = JobSpec("t", after=[left, right, good])
    beside = JobSpec("t", after=[good])
    ids = put_all(database, bottom, left, right, beside)
    cancelled_before = put(database, after=[root])
    with database.engine.begin() as conn:
        sqljobs.cancel(conn, cancelled_before)
    run(database, root, Outcome(cause))
    assert states(database, [*ids, cancelled_before]) == [*["cancelled"] * 3, "blocked", "cancelled"]
    for job_id in ids[:3]:
        job = row(database, job_id)
        assert (job.reason, job.reason_job_id, job.key_slot) == ("dependency", root, None)
        assert job.ended_at == row(database, root).ended_at
    assert row(database, cancelled_before).reason == "cancelled"
    run(database, good)
    assert row(database, ids[3]).state == "ready"
    assert row(database, ids[0]).state == "cancelled"
    assert settle_all(database) == 0


def test_retried_attempt_is_no_end(database: Database) -> None:
    upstream = put(database)
    dependent = put(database, after=[upstream])
    for cause in (Cause.ERROR, Cause.SNOOZED, Cause.INTERRUPTED):
        run(database, upstream, Outcome(cause))
        assert row(database, dependent).state == "blocked"
        with database.engine.begin() as conn:
            conn.execute(update(jobs).where(jobs.c.id == upstream).values(state="ready"))
    run(database, upstream)
    assert row(database, dependent).state == "ready"


@pytest.mark.parametrize("outcome", [DONE, FAILED], ids=["done", "failed"])
def test_more_dependents_than_one_portion(database: Database, outcome: Outcome) -> None:
    upstream = put(database)
    ids = put_all(database, *(JobSpec("t", after=[upstream]) for _ in range(1100)))
    run(database, upstream, outcome)
    assert count_states(database)["blocked"] == 600, "more are not touched in the transaction of the end"
    work_off_all(database)
    with database.engine.connect() as conn:
        rows = conn.exec_driver_sql("SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state").all()
    wanted = {"done": [("done", 1), ("ready", 1100)], "fail": [("cancelled", 1100), ("failed", 1)]}[outcome.cause]
    assert [tuple(found) for found in rows] == wanted
    assert row(database, ids[-1]).unmet_deps == (0 if outcome is DONE else 1)


def test_doomed_chain(database: Database) -> None:
    specs = [JobSpec("t")]
    for _ in range(100):
        specs.append(JobSpec("t", after=[specs[-1]]))
    ids = put_all(database, *specs)
    run(database, ids[0], FAILED)
    assert {row(database, job_id).reason_job_id for job_id in ids[1::20]} == {ids[0]}
    assert states(database, [ids[1], ids[-1]]) == ["cancelled", "cancelled"]


@servers
@pytest.mark.parametrize("outcome", [DONE, FAILED], ids=["done", "failed"])
@pytest.mark.parametrize(
    "pause", ["begin", "lock", "move_succeed", "attempt", "edges", "lock_dependents", "commit", "committed"]
)
def test_edge_that_commits_around_the_upstreams_end(
    database: Database, stage: Stage, outcome: Outcome, pause: str
) -> None:
    """The finalize stands before each of its steps in turn while a caller that saw the upstream open commits."""
    (running,) = set_off(database, put(database))
    early = put(database, after=[running.job_id])  # so that there is something to lock
    pause = {"move_succeed": f"move_{'succeed' if outcome is DONE else 'fail'}"}.get(pause, pause)
    finalizer = stage.actor(lambda: end_settled(database, running.fence, outcome))
    with database.engine.connect() as conn:
        dependent = sqljobs.enqueue(conn, "t", after=[running.job_id])
        finalizer.until(f"finalize.{pause}")
        conn.commit()
    assert finalizer.finish()
    settle_all(database)
    ids = [early, dependent]
    assert states(database, ids) == (["ready"] * 2 if outcome is DONE else ["cancelled"] * 2)
    assert [row(database, job_id).unmet_deps for job_id in ids] == ([0, 0] if outcome is DONE else [1, 1])
    if outcome is DONE:
        run(database, dependent)
        assert row(database, dependent).attempt == 1
        assert lease(database, dependent) == []


@servers
def test_edge_that_commits_after_the_end(database: Database) -> None:
    (running,) = set_off(database, put(database))
    with database.engine.connect() as conn:
        dependent = sqljobs.enqueue(conn, "t", after=[running.job_id])
        end(database, running.fence)
        assert settle_all(database) == 0  # nothing of it can be seen yet
        conn.commit()
    assert row(database, dependent).state == "blocked"
    assert settle_all(database) == 1
    assert row(database, dependent).state == "ready"
    assert settle_all(database) == 0


@servers
@pytest.mark.parametrize("pause", ["lock_upstream", "edges", "flip", "commit"])
def test_edge_that_commits_while_others_of_the_same_upstream_are_settled(
    database: Database, stage: Stage, pause: str
) -> None:
    """What the duty has not seen, it must not call looked at. The later edge is of the job with the lower id, so that
    no further portion of edges brings it up."""
    (running,) = set_off(database, put(database))
    with database.engine.connect() as first, database.engine.connect() as second:
        ids = [sqljobs.enqueue(conn, "t", after=[running.job_id]) for conn in (second, first)]
        end(database, running.fence)
        first.commit()
        assert database.transaction("check", check_edges) == (1, [running.job_id])
        duty = stage.actor(lambda: database.transaction("settle", lambda tx: settle_ended(tx, running.job_id)))
        duty.until(f"settle.{pause}")
        second.commit()
    duty.finish()
    settle_all(database)
    assert states(database, ids) == ["ready", "ready"]


@servers
@pytest.mark.parametrize("pause", ["check.lock_upstreams", "check.checked_edges", "check.commit"])
def test_end_that_commits_while_its_edges_are_looked_at(database: Database, stage: Stage, pause: str) -> None:
    (running,) = set_off(database, put(database))
    dependent = put(database, after=[running.job_id])
    duty = stage.actor(lambda: database.transaction("check", check_edges))
    finalizer = stage.actor(lambda: end_settled(database, running.fence))
    duty.until(pause)
    if pause == "check.lock_upstreams":
        finalizer.finish()
    else:
        finalizer.go()
        wait_until(lambda: waits_for_lock(database), what="the finalizer's wait for the duty")
    duty.finish()
    finalizer.finish()
    settle_all(database)
    assert (row(database, dependent).state, row(database, dependent).unmet_deps) == ("ready", 0)


@servers
def test_two_duties_at_once(database: Database, stage: Stage) -> None:
    """Each edge is counted once, though two supervisors settle the same upstream."""
    (running,) = set_off(database, put(database))
    other = put(database)
    with database.engine.connect() as conn:
        dependent = sqljobs.enqueue(conn, "t", after=[running.job_id, other])
        end(database, running.fence)
        conn.commit()
    one, two = (
        stage.actor(lambda: database.transaction("settle", lambda tx: settle_ended(tx, running.job_id)))
        for _ in range(2)
    )
    one.until("settle.commit")
    assert two.finish() is False, "it is left to the first, not waited for"
    assert one.finish() is True
    assert row(database, dependent).unmet_deps == 1
    assert settle_all(database) == 1  # the edge to `other`, which is open
    run(database, other)
    assert row(database, dependent).state == "ready"


@servers
def test_last_two_upstreams_end_at_the_same_instant(database: Database, stage: Stage) -> None:
    running = set_off(database, put(database), put(database))
    dependent = put(database, after=[one.job_id for one in running])
    first, second = (stage.actor(lambda one=one: end_settled(database, one.fence)) for one in running)  # type: ignore[misc]
    first.until("finalize.commit")
    second.go()
    wait_until(lambda: waits_for_lock(database), what="the second finalizer's wait for the first")
    assert first.finish()
    assert second.finish()
    assert (row(database, dependent).state, row(database, dependent).unmet_deps) == ("ready", 0)


@servers
def test_good_and_bad_end_at_the_same_instant(database: Database, stage: Stage) -> None:
    running = set_off(database, put(database), put(database))
    dependent = put(database, after=[one.job_id for one in running])
    below = put(database, after=[dependent])
    good = stage.actor(lambda: end_settled(database, running[0].fence))
    bad = stage.actor(lambda: end_settled(database, running[1].fence, FAILED))
    good.until("finalize.commit")
    bad.go()
    wait_until(lambda: waits_for_lock(database), what="the second finalizer's wait for the first")
    assert good.finish()
    assert bad.finish()
    for job_id in (dependent, below):
        assert (row(database, job_id).state, row(database, job_id).reason_job_id) == ("cancelled", running[1].job_id)


def test_cancel_of_a_waiting_job_goes_down_the_graph(database: Database) -> None:
    a = put(database, run_after="1h")
    b = put(database, after=[a])
    c = put(database, after=[b])
    with database.engine.begin() as conn:
        assert sqljobs.cancel(conn, b) == [b]
    assert states(database, [a, b, c]) == ["scheduled", "cancelled", "cancelled"]
    assert (row(database, b).reason, row(database, c).reason_job_id) == ("cancelled", b)
