"""What a picture of a graph reads: the neighbourhood, bounded, in few statements, on each database."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, event, update

import sqljobs
from sqljobs.schema.graph import Edge
from sqljobs.schema.graph_read import CROWD, FIRST_FEW, read_graph
from sqljobs.schema.job_info import Progress, StateReason
from sqljobs.schema.neighbourhood import Graph, GraphJob, LeftOut, Relation
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.snapshots import read_snapshot
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import put, run, set_off
from tests.schema.rows import fill_queue, refresh_statistics
from tests.schema.test_plans import explain, sent, uses

FAILS = Outcome(Cause.FAIL, error="ValueError: no")


def look(database: Database, job_id: int, limit: int = 200) -> Graph:
    return read_snapshot(database, "graph", lambda tx: read_graph(tx, job_id, limit))


def put_many(database: Database, count: int, **options: Any) -> list[int]:
    with database.engine.begin() as conn:
        return sqljobs.enqueue_many(conn, [sqljobs.JobSpec("t", **options) for _ in range(count)])


def put_chain(database: Database, count: int, **options: Any) -> list[int]:
    specs: list[sqljobs.JobSpec] = []
    for _ in range(count):
        specs.append(sqljobs.JobSpec("step", after=specs[-1:], **options))
    with database.engine.begin() as conn:
        return sqljobs.enqueue_many(conn, specs)


def edges_of(graph: Graph) -> list[tuple[int, int, str, Edge]]:
    return [(edge.job_id, edge.upstream, edge.kind, edge.standing) for edge in graph.edges]


def test_one_job(database: Database) -> None:
    job = put(database, "t", key="k", max_attempts=3)
    other = put(database)
    assert look(database, job) == Graph(job, {job: GraphJob(job, "t", "ready", "k", max_attempts=3)})
    with pytest.raises(sqljobs.UnknownJob, match=f"there is no job {other + 1}"):
        look(database, other + 1)


def test_all_that_is_connected(database: Database) -> None:
    first, failing = put(database, "first"), put(database, "failing")
    join = put(database, "join", after=[first, failing])
    cleanup, notify = put(database, "cleanup", after_any=[join]), put(database, "notify", after_failed=[failing, join])
    waits = put(database, "waits", after=[cleanup], after_any=[first])
    put(database, "elsewhere")
    run(database, first)
    run(database, failing, FAILS)
    for job in (first, failing, join, cleanup, notify, waits):
        graph = look(database, job)
        assert graph.focus == next(iter(graph.jobs)) == job
        assert graph.jobs.keys() == {first, failing, join, cleanup, notify, waits}
        assert edges_of(graph) == [
            (join, first, "ok", Edge.SATISFIED),
            (join, failing, "ok", Edge.BROKEN),
            (cleanup, join, "any", Edge.SATISFIED),
            (notify, failing, "not_ok", Edge.SATISFIED),
            (notify, join, "not_ok", Edge.SATISFIED),
            (waits, cleanup, "ok", Edge.OPEN),
            (waits, first, "any", Edge.SATISFIED),
        ]
        assert graph.left_out == ()
    assert graph.jobs[failing].reason == StateReason("fail", "ValueError: no")
    assert graph.jobs[join].reason == StateReason("dependency", f"job {failing} did not end well", failing)
    assert graph.jobs[waits].reason is None


def test_containers_and_their_members(database: Database) -> None:
    outer = put(database, "c", container=True)
    inner = put(database, "c", container=True, parent=outer)
    members = [put(database, "a", parent=inner), put(database, "b", parent=inner)]
    behind = put(database, "behind", after=[outer])
    for job in (*members, inner, outer, behind):
        graph = look(database, job)
        assert {one: graph.jobs[one].parent for one in graph.jobs} == {
            **dict.fromkeys(members, inner),
            inner: outer,
            outer: None,
            behind: None,
        }
        assert graph.members == {inner: {"ready": 2}, outer: {"waiting": 1}}
        assert edges_of(graph) == [(behind, outer, "ok", Edge.OPEN)]
        assert [one for one in graph.jobs if graph.jobs[one].container] == [
            one for one in graph.jobs if one in (inner, outer)
        ]


def test_what_else_a_row_says(database: Database) -> None:
    later = put(database, run_after="1h")
    running = put(database, after_any=[later])
    with database.engine.begin() as conn:
        conn.execute(update(jobs).where(jobs.c.id == later).values(run_after=datetime.now(UTC) - timedelta(hours=1)))
        conn.execute(update(jobs).where(jobs.c.id == later).values(state="ready"))
    set_off(database, later)
    with database.engine.begin() as conn:
        values = {
            "progress_done": 1,
            "progress_total": 4,
            "progress_note": "n",
            "cancel_requested_at": datetime.now(UTC),
        }
        conn.execute(update(jobs).where(jobs.c.id == later).values(**values))
    job = look(database, running).jobs[later]
    assert (job.state, job.attempt, job.progress, job.cancelling) == ("running", 1, Progress(1, 4, "n"), True)
    assert job.run_after is not None


def test_a_crowd_is_counted_and_its_failures_are_shown(database: Database) -> None:
    container = put(database, "c", container=True)
    members = put_many(database, 2 * CROWD, parent=container)
    join = put(database, "join", after_any=members)
    for failed in members[-2:]:
        run(database, failed, FAILS)
    run(database, members[3])
    shown = {*members[:FIRST_FEW], *members[-2:]}
    counts = {"ready": 2 * CROWD - 3, "done": 1, "failed": 2}
    left = {"ready": 2 * CROWD - FIRST_FEW - 2}
    for job in (container, join):
        graph = look(database, job)
        assert graph.jobs.keys() == {container, join, *shown}
        assert graph.members == {container: counts}
        assert len(graph.edges) == len(shown)
        assert {(one.job_id, one.relation): (one.counts, one.is_crowd) for one in graph.left_out} == {
            (container, Relation.MEMBERS): (left, True),
            (join, Relation.UPSTREAMS): (left, True),
        }
    # One that is asked for is shown, though it is none of the first few.
    assert look(database, members[10]).jobs.keys() == {container, join, members[10], *shown}


def test_as_many_as_are_no_crowd_are_all_shown(database: Database) -> None:
    upstream = put(database)
    dependents = put_many(database, CROWD, after=[upstream])
    assert look(database, upstream).jobs.keys() == {upstream, *dependents}
    more = put(database, after=[upstream])
    graph = look(database, upstream)
    assert list(graph.jobs) == [upstream, *dependents[:FIRST_FEW]]
    left = {"blocked": CROWD + 1 - FIRST_FEW}
    assert graph.left_out == (LeftOut(upstream, Relation.DEPENDENTS, left, True),)
    assert more in look(database, more).jobs


def test_the_nearest_are_shown_and_what_is_beside_them_is_counted(database: Database) -> None:
    chain = put_chain(database, 9)
    middle = chain[4]
    graph = look(database, middle, limit=4)
    assert list(graph.jobs) == [middle, chain[3], chain[5], chain[2]]
    assert [(edge.job_id, edge.upstream) for edge in graph.edges] == list(zip(chain[3:6], chain[2:5], strict=True))
    assert set(map(str, graph.left_out)) == {
        str(LeftOut(chain[5], Relation.DEPENDENTS, {"blocked": 1}, False)),
        str(LeftOut(chain[2], Relation.UPSTREAMS, {"blocked": 1}, False)),
    }
    assert list(look(database, middle, limit=1).jobs) == [middle]


def test_a_container_that_there_is_no_room_for(database: Database) -> None:
    container = put(database, "c", container=True)
    member = put(database, parent=container)
    assert look(database, member, limit=1).left_out == (LeftOut(member, Relation.CONTAINER, {"waiting": 1}, False),)
    assert look(database, container, limit=1).left_out == (LeftOut(container, Relation.MEMBERS, {"ready": 1}, False),)


def test_neighbours_whose_rows_are_gone(database: Database) -> None:
    upstream = put(database)
    job = put(database, after_any=[upstream])
    container = put(database, "c", container=True)
    member = put(database, parent=container)
    with database.engine.begin() as conn:
        conn.execute(delete(jobs).where(jobs.c.id.in_([upstream, container])))
    assert look(database, job).left_out == (LeftOut(job, Relation.UPSTREAMS, {"pruned": 1}, False),)
    assert look(database, member).left_out == (LeftOut(member, Relation.CONTAINER, {"pruned": 1}, False),)


def test_an_edge_that_was_satisfied_stays_so_when_its_upstream_runs_again(database: Database) -> None:
    upstream = put(database)
    job = put(database, after_any=[upstream])
    run(database, upstream, FAILS)
    set_off(database, job)
    with database.engine.begin() as conn:
        sqljobs.retry(conn, upstream)
    assert edges_of(look(database, job)) == [(job, upstream, "any", Edge.SATISFIED)]


def statements(database: Database, job_id: int, limit: int = 200) -> list[str]:
    seen: list[str] = []

    def listener(*args: object) -> None:
        seen.append(str(args[2]))

    event.listen(database.engine, "before_cursor_execute", listener)
    try:
        look(database, job_id, limit)
    finally:
        event.remove(database.engine, "before_cursor_execute", listener)
    return [one for one in seen if "job" in one]


def counts_at(database: Database, sizes: Sequence[int], *, of_a_chain: bool) -> list[int]:
    found = []
    for size in sizes:
        middle = put_chain(database, size)[size // 2] if of_a_chain else put(database)
        if not of_a_chain:
            put_many(database, size, after=[middle])
        found.append(len(statements(database, middle)))
    return found


def test_a_number_of_statements_that_grows_with_the_levels_alone(database: Database) -> None:
    first, second, third = counts_at(database, (20, 40, 80), of_a_chain=True)
    assert third - second == 2 * (second - first)
    assert third <= 4 * (80 // 2 + 1) + 2
    assert len(set(counts_at(database, (25, 50, 700), of_a_chain=False))) == 1
    assert all("RECURSIVE" not in one.upper() for one in statements(database, put(database)))
    long = put_chain(database, 300)
    assert len(statements(database, long[150], limit=20)) <= 4 * 11 + 2


def test_every_look_uses_an_index(database: Database) -> None:
    with database.engine.begin() as conn:
        fill_queue(conn, others=2000, ready=100)
    chain = put_chain(database, 5, parent=put(database, "c", container=True))
    with database.engine.begin() as conn:
        refresh_statistics(conn)
    with sent(database.engine) as seen:
        look(database, chain[2])
    walks = []
    with database.engine.connect() as conn:
        for statement, parameters in seen:
            plan = explain(conn, statement, parameters)
            if not uses(conn.dialect.name, plan, {"jobs_parent", "job_deps_upstream", "PRIMARY"}):
                walks.append(f"{statement}\n{parameters}\n{plan}")
    assert len(seen) > 10
    assert walks == []
