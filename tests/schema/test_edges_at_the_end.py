"""Edges that callers commit before, after and, unsteered, around the end of their upstream: each dependent becomes what
it should."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import sqljobs
from sqljobs.schema import late_edges
from sqljobs.schema.claim import Lease
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
        looked_at, ended = database.transaction("check", late_edges.check_edges)
        for upstream in ended:
            database.transaction("settle", lambda tx, upstream=upstream: late_edges.settle_ended(tx, upstream))  # type: ignore[misc]


def test_edges_committed_around_the_end(database: Database) -> None:
    rng = random.Random(20261130)
    orders: Counter[str] = Counter()
    for number in range(full_size(30, 5000)):
        (one,) = set_off(database, put(database))
        option, outcome = rng.choice(list(KINDS)), rng.choice([DONE, FAILED])
        race = Race(database, one, option, outcome, rng)
        dependent, order = race.run(leader=("edge", "end", "")[number % 3])
        orders[order] += 1
        settle_all(database)
        runs = option == "after_any" or (option == "after") == (outcome is DONE)
        assert states(database, [dependent]) == ["ready" if runs else "cancelled"], (option, outcome, order)
        if runs:
            set_off(database, dependent)
            settle_all(database)
            assert states(database, [dependent]) == ["running"]
    assert min(orders["edge"], orders["end"]) >= orders.total() // 3
    assert database.read("audit", audit) == []


@dataclass
class Race:
    """One attempt that ends while a caller enqueues a job behind it."""

    database: Database
    upstream: Lease
    option: str
    outcome: Outcome
    rng: random.Random

    def run(self, leader: str) -> tuple[int, str]:
        """The dependent's id, and whose COMMIT came back first: "edge" or "end". `leader` is awaited by the other; with
        none, chance decides."""
        self._leader = leader
        self._led = threading.Event()
        self._start = threading.Barrier(2)
        self._order: list[str] = []
        with ThreadPoolExecutor(2) as pool:
            enqueued, finished = pool.submit(self._enqueue), pool.submit(self._finish)
            finished.result(60)
            return enqueued.result(60), self._order[0]

    def _enqueue(self) -> int:
        self._wait_for_turn("edge", 0.003)
        with self.database.engine.begin() as conn:
            dependent = sqljobs.enqueue(conn, "t", **{self.option: [self.upstream.job_id]})
            time.sleep(self.rng.uniform(0, 0.003))
        self._ended("edge")
        return dependent

    def _finish(self) -> None:
        self._wait_for_turn("end", 0.006)
        end(self.database, self.upstream.fence, self.outcome)
        self._ended("end")

    def _wait_for_turn(self, who: str, longest_delay: float) -> None:
        self._start.wait(60)
        if self._leader not in ("", who):
            assert self._led.wait(60)
        elif not self._leader:
            time.sleep(self.rng.uniform(0, longest_delay))

    def _ended(self, who: str) -> None:
        self._order.append(who)
        if who == self._leader:
            self._led.set()
