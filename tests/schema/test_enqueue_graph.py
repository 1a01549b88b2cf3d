"""Jobs that wait for each other: by id, by spec, in one call or in several, whatever has become of the upstream."""

import re

import pytest

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.schema.playing import count, edges, put, row, run, set_off, states


def put_all(database: Database, *specs: JobSpec) -> list[int]:
    with database.engine.begin() as conn:
        return sqljobs.enqueue_many(conn, specs)


def test_ids_come_in_input_order(database: Database) -> None:
    last = JobSpec("t", {"n": 0})
    middle = JobSpec("t", {"n": 1}, after=[last])
    first = JobSpec("t", {"n": 2}, after=[middle, last])
    ids = put_all(database, first, middle, last)
    assert [row(database, job_id).args["n"] for job_id in ids] == [2, 1, 0]
    assert states(database, ids) == ["blocked", "blocked", "ready"]
    assert [row(database, job_id).unmet_deps for job_id in ids] == [2, 1, 0]


def test_edges_keep_the_order_in_which_they_were_named(database: Database) -> None:
    one, two = put(database), put(database)
    three = JobSpec("t")
    ids = put_all(database, JobSpec("t", after=[two, three, one, two]), three)
    found = edges(database, ids[0])
    assert [(edge.depends_on_id, edge.position) for edge in found] == [(two, 0), (ids[1], 1), (one, 2)]
    assert [(edge.kind, edge.satisfied) for edge in found] == [("ok", False)] * 3
    # What was there before might be about to end; what this call has made cannot be.
    assert [edge.checked for edge in found] == [False, True, False]
    info = database.read("job", lambda tx: sqljobs.get_job(tx.conn, ids[0]))
    assert [edge.id for edge in info.after] == [two, ids[1], one]


def test_nothing_to_enqueue(database: Database) -> None:
    assert put_all(database) == []
    assert count(database) == 0


def test_one_spec_instead_of_a_list(database: Database) -> None:
    with database.engine.begin() as conn:
        assert len(sqljobs.enqueue_many(conn, JobSpec("t"))) == 1  # type: ignore[arg-type]  # a kindness
        assert sqljobs.enqueue_many(conn, (JobSpec("t") for _ in range(3))) != []
    assert count(database) == 4


@pytest.mark.parametrize("state", ["ready", "running", "done", "failed", "cancelled", "doomed"])
def test_upstream_in_every_state(database: Database, state: str) -> None:
    root = upstream = put(database)
    match state:
        case "running":
            set_off(database, upstream)
        case "done":
            run(database, upstream)
        case "failed" | "cancelled":
            run(database, upstream, Outcome(Cause.FAIL if state == "failed" else Cause.CANCELLED))
        case "doomed":
            upstream = put(database, after=[root])
            run(database, root, Outcome(Cause.FAIL))
    direct = JobSpec("t", after=[upstream])
    ids = put_all(database, JobSpec("t", after=[direct]), direct)
    below, job = row(database, ids[0]), row(database, ids[1])
    assert below.state == {"ready": "blocked", "running": "blocked", "done": "blocked"}.get(state, "cancelled")
    assert job.state == {"ready": "blocked", "running": "blocked", "done": "ready"}.get(state, "cancelled")
    if job.state == "cancelled":
        for one in (job, below):
            assert (one.reason, one.reason_job_id, one.ended_at) == ("dependency", root, one.created_at)
            assert str(root) in one.reason_text
    # A bad end may be taken back by a retry that commits meanwhile: it is looked at once more.
    assert [(edge.satisfied, edge.checked) for edge in edges(database, ids[1])] == [(state == "done",) * 2]


def test_scheduled_comes_after_blocked(database: Database) -> None:
    upstream = put(database)
    later = put(database, after=[upstream], run_after="1h")
    now = put(database, after=[upstream], run_after=0)
    assert states(database, [later, now]) == ["blocked", "blocked"]
    run(database, upstream)
    assert states(database, [later, now]) == ["scheduled", "ready"]


def test_unknown_upstream_is_named_and_nothing_is_written(database: Database) -> None:
    known = put(database)
    unknown = known + 1000
    with pytest.raises(sqljobs.UnknownJob, match=f"after: there is no job {unknown}$"):
        put_all(database, JobSpec("t"), JobSpec("t", after=[known, unknown]))
    assert count(database) == 1


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_upstream_of_a_transaction_that_is_not_committed_is_unknown_to_others(database: Database) -> None:
    with database.engine.connect() as conn:
        hidden = sqljobs.enqueue(conn, "t")
        with pytest.raises(sqljobs.UnknownJob):
            put(database, after=[hidden])
        assert sqljobs.enqueue(conn, "t", after=[hidden]) > hidden
        conn.rollback()


def test_circles_are_refused_and_named(database: Database) -> None:
    specs = [JobSpec(name) for name in "abc"]
    a, b, c = (spec.options(after=[]) for spec in specs)
    for spec, upstream in ((a, b), (b, c), (c, a)):
        spec.given["after"].append(upstream)  # no honest way to build a circle
    with pytest.raises(sqljobs.CycleError, match=r"wait for each other: a \(number 2\) -> b .* -> c .* -> a"):
        put_all(database, JobSpec("t"), a, b, c)
    itself = JobSpec("t", after=[])
    itself.given["after"].append(itself)
    with pytest.raises(sqljobs.CycleError, match=r"t \(number 1\) -> t \(number 1\)$"):
        put_all(database, itself)
    assert count(database) == 0


def test_long_circle_is_one_readable_line(database: Database) -> None:
    ring = [JobSpec("t", after=[]) for _ in range(5000)]
    for spec, upstream in zip(ring, [*ring[1:], ring[0]], strict=True):
        spec.given["after"].append(upstream)
    with pytest.raises(sqljobs.CycleError) as raised:
        put_all(database, *ring)
    assert len(str(raised.value)) < 500
    assert re.search(r"number 1\) -> .*4991 more.* -> t \(number 1\)$", str(raised.value))


def test_spec_that_is_not_in_the_call_or_twice(database: Database) -> None:
    outside = JobSpec("outside")
    with pytest.raises(sqljobs.InvalidJob, match="'t' waits for a spec of type 'outside' that is not in this call"):
        put_all(database, JobSpec("t", after=[outside]))
    with pytest.raises(sqljobs.InvalidJob, match="stands more than once in this call"):
        put_all(database, outside, outside, JobSpec("t", after=[outside]))
    ids = put_all(database, outside, outside)
    assert len(set(ids)) == 2


def test_upstream_that_shares_its_key_with_an_open_job(database: Database) -> None:
    taken = put(database, key="k")
    keyed = JobSpec("t", key="k", after=[put(database)])
    ids = put_all(database, keyed, JobSpec("t", after=[keyed, taken]))
    assert ids[0] == taken
    assert [edge.depends_on_id for edge in edges(database, ids[1])] == [taken]
    assert edges(database, taken) == []
    assert row(database, ids[1]).unmet_deps == 1
