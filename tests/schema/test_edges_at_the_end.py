"""Edges that callers commit around the end of their upstream, unsteered: each dependent becomes what it should."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import sqljobs
from sqljobs.schema import edges
from sqljobs.schema.graph import KINDS
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.queue.conftest import full_size
from tests.schema.audit import audit
from tests.schema.playing import DONE, end, put, set_off, states

FAILED = Outcome(Cause.FAIL)


def settle_all(database: Database) -> None:
    """What the duties of a supervisor do, until there is nothing to do."""
    looked_at = 1
    while looked_at:
        looked_at, ended = database.transaction("check", edges.check_edges)
        for upstream in ended:
            database.transaction("settle", lambda tx, upstream=upstream: edges.settle_ended(tx, upstream))  # type: ignore[misc]


def test_edges_committed_around_the_end(database: Database) -> None:
    rounds = full_size(30, 5000)
    rng = random.Random(20261130)
    first_to_come: set[str] = set()
    for _ in range(rounds):
        (one,) = set_off(database, put(database))
        dependents: list[int] = []
        order: list[str] = []
        start = threading.Barrier(2)

        option, outcome = rng.choice(list(KINDS)), rng.choice([DONE, FAILED])

        def enqueue(
            option: str = option, one: int = one.job_id, into: list[int] = dependents, order: list[str] = order
        ) -> None:
            with database.engine.begin() as conn:
                into.append(sqljobs.enqueue(conn, "t", **{option: [one]}))
                time.sleep(rng.uniform(0, 0.003))
            order.append("edge")

        def finish(one: object = one, outcome: Outcome = outcome, order: list[str] = order) -> None:
            time.sleep(rng.uniform(0, 0.006))
            end(database, one.fence, outcome)  # type: ignore[attr-defined]
            order.append("end")

        run_together(start, enqueue, finish)
        first_to_come.add(order[0])
        settle_all(database)
        runs = option == "after_any" or (option == "after") == (outcome is DONE)
        assert states(database, dependents) == ["ready" if runs else "cancelled"], (option, outcome)
        if runs:
            set_off(database, *dependents)
            settle_all(database)
            assert states(database, dependents) == ["running"]
    assert first_to_come == {"edge", "end"}, "the race was not met from both sides"
    assert database.read("audit", audit) == []


def run_together(start: threading.Barrier, *works: Callable[[], None]) -> None:
    def work(one: Callable[[], None]) -> None:
        start.wait()
        one()

    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(work, one) for one in works]:
            future.result(60)
