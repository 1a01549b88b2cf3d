"""Large graphs: what one end touches is bounded, the rest is worked off in portions, and all of it grows linearly."""

from collections.abc import Callable

import pytest

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.settling import NEIGHBOURS
from sqljobs.schema.transactions import Database
from tests.queue.conftest import full_size
from tests.schema.playing import count_states, put, row, run, set_off, states, work_off_all
from tests.schema.test_enqueue_bulk import statements

FAILED = Outcome(Cause.FAIL, error="no")
SIZE = full_size(600, 2500)  # a quarter of the largest


def put_all(database: Database, specs: list[JobSpec]) -> list[int]:
    with database.engine.begin() as conn:
        return sqljobs.enqueue_many(conn, specs)


def cancel(database: Database, job_id: int) -> None:
    with database.engine.begin() as conn:
        sqljobs.cancel(conn, job_id)


def retry(database: Database, job_id: int) -> None:
    with database.engine.begin() as conn:
        sqljobs.retry(conn, job_id)


def fan_out(database: Database, n: int) -> int:
    root = JobSpec("t")
    return put_all(database, [root, *(JobSpec("t", after=[root]) for _ in range(n))])[0]


def chain(database: Database, n: int) -> int:
    specs = [JobSpec("t")]
    for _ in range(n):
        specs.append(JobSpec("t", after=[specs[-1]]))
    return put_all(database, specs)[0]


def gated(database: Database, n: int) -> int:
    first = JobSpec("t")
    box = JobSpec("box", container=True, after=[first])
    return put_all(database, [first, box, *(JobSpec("t", parent=box) for _ in range(n))])[0]


def boxed(database: Database, n: int) -> int:
    box = JobSpec("box", container=True)
    members = [JobSpec("t", parent=box) for _ in range(n)]
    return put_all(database, [box, *members, JobSpec("t", after_any=members[:50])])[0]


def failed_boxed(database: Database, n: int) -> int:
    root = gated(database, n)
    run(database, root, FAILED)
    work_off_all(database)
    return root


def ends_badly(database: Database, root: int) -> None:
    run(database, root, FAILED)


SMALL = full_size(60, 250)  # each link of a chain is a round of its own
STORIES: dict[str, tuple[int, Callable[[Database, int], int], Callable[[Database, int], object]]] = {
    "fan-out, done": (SIZE, fan_out, run),
    "fan-out, failed": (SIZE, fan_out, ends_badly),
    "chain, failed": (SMALL, chain, ends_badly),
    "container begins": (SIZE, gated, run),
    "container doomed": (SIZE, gated, ends_badly),
    "container cancelled": (SIZE, boxed, cancel),
    "container reopened": (SIZE, failed_boxed, retry),
}


@pytest.mark.parametrize("name", STORIES)
def test_twice_the_neighbours_are_at_most_twice_the_statements(database: Database, name: str) -> None:
    smallest, prepare, act = STORIES[name]
    sizes = [smallest, 2 * smallest, 4 * smallest]
    sent = []
    for size in sizes:
        before = count_states(database)
        root = prepare(database, size)
        with statements(database.engine) as seen:
            act(database, root)
            work_off_all(database)
        sent.append(len(seen))
        after = count_states(database)
        changed = {state: after.get(state, 0) - before.get(state, 0) for state in after}
        assert max(changed.values()) in (size, size + 1), changed
    print(f"{name}: {sent} statements for {sizes} neighbours")
    assert sent[1] <= 2 * sent[0] + 10
    assert sent[2] <= 2 * sent[1] + 10
    assert sqljobs.doctor(database.engine) == []


def test_the_transaction_of_an_end_touches_a_bounded_number(database: Database) -> None:
    root = fan_out(database, 3 * NEIGHBOURS)
    with statements(database.engine) as seen:
        run(database, root)
    few = len(seen)
    assert count_states(database) == {"done": 1, "ready": NEIGHBOURS, "blocked": 2 * NEIGHBOURS}
    assert work_off_all(database) == 2
    assert count_states(database) == {"done": 1, "ready": 3 * NEIGHBOURS}
    other = fan_out(database, 6 * NEIGHBOURS)
    with statements(database.engine) as seen:
        run(database, other)
    assert len(seen) == few


@pytest.mark.parametrize("joined", [False, True], ids=["fan-in", "container"])
def test_each_end_costs_the_same_however_many_there_are(database: Database, joined: bool) -> None:
    sent = []
    for size in (10, full_size(500, 10_000)):
        box = JobSpec("box", container=True)
        members = [JobSpec("t", parent=box) if joined else JobSpec("t") for _ in range(size)]
        join = JobSpec("t", after=[box] if joined else members)
        ids = put_all(database, [*([box] if joined else []), *members, join])[joined:]
        leases = set_off(database, ids[0])
        with statements(database.engine) as seen:
            run(database, ids[1])
        sent.append(len(seen))
        assert states(database, [ids[-1]]) == ["blocked"]
        assert leases
    assert sent[0] == sent[1]


def test_deep_nesting(database: Database) -> None:
    first = JobSpec("t")
    boxes = [JobSpec("box", container=True, after=[first])]
    for _ in range(49):
        boxes.append(JobSpec("box", container=True, parent=boxes[-1]))
    leaf = JobSpec("t", parent=boxes[-1])
    ids = put_all(database, [first, *boxes, leaf, JobSpec("t", after=[boxes[0]])])
    run(database, ids[0])
    assert states(database, ids[1:]) == [*["waiting"] * 50, "ready", "blocked"]
    run(database, ids[-2], FAILED)
    assert states(database, ids[1:]) == [*["failed"] * 51, "cancelled"]
    retry(database, ids[1])
    assert states(database, ids[1:]) == [*["waiting"] * 50, "ready", "blocked"]
    run(database, ids[-2])
    assert states(database, ids[1:]) == [*["done"] * 51, "ready"]
    again = put(database, "t", parent=put(database, "box", container=True))
    run(database, again)
    assert row(database, again).state == "done"
    assert sqljobs.doctor(database.engine) == []
