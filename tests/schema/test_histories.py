"""Random histories: after each move the rows say the same as the definition of the ready set, computed from edges."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from sqljobs.schema.cancel import cancel
from sqljobs.schema.claim import Claimer, claim
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.doctor import examine
from sqljobs.schema.enqueue import enqueue_many
from sqljobs.schema.errors import InvalidJob, Refused
from sqljobs.schema.finalize import finalize, start
from sqljobs.schema.graph import KINDS
from sqljobs.schema.late_edges import check_edges, settle_ended
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Backoff, Cause, Outcome
from sqljobs.schema.ready import promote_due
from sqljobs.schema.retry import retry
from sqljobs.schema.specs import JobSpec
from sqljobs.schema.states import State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.audit import audit
from tests.schema.playing import no_options

Move = tuple[Any, ...]
# The one that claims in these stories, as it would have registered.
SUPERVISOR: dict[str, Any] = {
    "id": "1",
    "name": "a",
    "name_slot": "a",
    "host": "h",
    "boot_id": "b",
    "pid": 1,
    "start_ticks": 1,
    "state": "running",
    "slots": 4,
    "types": ["t"],
    "wakeup": "poll",
    "ttl": 60.0,
}
number = st.integers(0, 30)
edge = st.tuples(st.sampled_from(list(KINDS)), number)
one_spec = st.tuples(st.lists(edge, max_size=4), st.booleans(), st.sampled_from([None, None, "k", "l"]))
moves = st.one_of(
    st.tuples(st.just("enqueue"), st.lists(one_spec, min_size=1, max_size=5)),
    st.tuples(st.just("claim"), st.lists(number, min_size=1, max_size=4)),
    st.tuples(st.just("end"), number, st.sampled_from(list(Cause)), st.booleans()),
    st.tuples(st.just("stale end"), number),
    st.tuples(st.just("cancel"), st.lists(number, min_size=1, max_size=3)),
    st.tuples(st.just("retry"), number),
    st.tuples(st.just("time passes")),
    st.tuples(st.just("look")),
)


@dataclass
class History:
    """One world: the ids made so far and the fences handed out. Numbers of the moves choose among them."""

    tx: Transaction
    ids: list[int] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)

    def play(self, move: Move) -> None:
        verb = move[0].replace(" ", "_")
        getattr(self, f"_{verb}")(*move[1:])

    def _enqueue(self, described: list[tuple[list[tuple[str, int]], bool, str | None]]) -> None:
        specs: list[JobSpec] = []
        for deps, delayed, key in described:
            known: list[int | JobSpec] = [*self.ids, *specs]
            options: dict[str, Any] = {"run_after": "1h" if delayed else None, "key": key}
            ways = {known[n % len(known)]: option for option, n in deps} if known else {}
            for upstream, option in ways.items():
                options.setdefault(option, []).append(upstream)
            specs.append(JobSpec("t", **options, key_for="ever" if key == "l" else "open"))
        try:
            made = enqueue_many(self.tx, specs, no_options, lambda _type, _args: None)
        except InvalidJob:
            keys = [spec.given["key"] for spec in specs if spec.given["key"] is not None]
            assert keys, "refused, though no two specs can be one job"
            return
        self.ids += [one.id for one in made if one.created]

    def _claim(self, numbers: list[int]) -> None:
        chosen = list(dict.fromkeys(self._job(n) for n in numbers))
        ready = [i for i in chosen if i is not None and self._state(i) == State.READY]
        leases = claim(self.tx, Claimer("a/1", "a", 60.0), [i for i in chosen if i is not None], no_options)
        assert [one.job_id for one in leases] == ready
        self.fences += [one.fence for one in leases]

    def _end(self, n: int, cause: Cause, reached: bool) -> None:
        open_ones = [fence for fence in self.fences if self._state(fence.job_id) in (State.LEASED, State.RUNNING)]
        if not open_ones:
            return
        fence = open_ones[n % len(open_ones)]
        if reached or cause in (Cause.DONE, Cause.SNOOZED):
            start(self.tx, fence, pid=1)
        if finalize(self.tx, fence, Outcome(cause), Backoff(0.0, 0.0)) is not None:
            self.fences.remove(fence)

    def _stale_end(self, n: int) -> None:
        job_id = self._job(n)
        if job_id is not None:
            for fence in (Fence(job_id, 1, "b/1"), Fence(job_id, 99, "a/1")):
                assert finalize(self.tx, fence, Outcome(Cause.DONE), Backoff()) is None

    def _cancel(self, numbers: list[int]) -> None:
        ids = [i for i in (self._job(n) for n in numbers) if i is not None]
        try:
            cancel(self.tx, ids)
        except Refused:
            assert any(self._state(i) in (State.DONE, State.FAILED) for i in ids)

    def _retry(self, n: int) -> None:
        job_id = self._job(n)
        if job_id is None:
            return
        before = self._state(job_id)
        try:
            retry(self.tx, [job_id])
        except Refused:
            return
        assert before in (State.FAILED, State.CANCELLED)

    def _time_passes(self) -> None:
        past = self.tx.now - timedelta(seconds=1)
        scheduled = select(jobs.c.id).where(jobs.c.state == State.SCHEDULED.value)
        ids = self.tx.conn.execute(scheduled).scalars().all()
        self.tx.conn.execute(update(jobs).where(jobs.c.id.in_(ids)).values(run_after=past))
        assert promote_due(self.tx, ids) == len(ids)

    def _look(self) -> None:
        """As a supervisor does it: edges that nobody has looked at yet."""
        _, ended = check_edges(self.tx)
        for upstream in ended:
            settle_ended(self.tx, upstream)

    def _job(self, n: int) -> int | None:
        return self.ids[n % len(self.ids)] if self.ids else None

    def _state(self, job_id: int) -> State:
        return State(self.tx.conn.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar_one())


def play_all(database: Database, story: list[Move]) -> None:
    """The whole story in one transaction that is rolled back."""

    def work(tx: Transaction) -> None:
        tx.conn.execute(insert(job_supervisors).values(**SUPERVISOR, started_at=tx.now, heartbeat_at=tx.now))
        history = History(tx)
        for number, move in enumerate(story):
            history.play(move)
            broken = audit(tx, settled=False)
            assert broken == [], f"after move {number}, {move}: {broken}"
        assert examine(tx) == []

    database.transaction("history", work, keep=False)


FIXTURES = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)


@pytest.mark.databases("sqlite")
@settings(max_examples=150, deadline=None, suppress_health_check=FIXTURES, derandomize=True)
@given(st.lists(moves, min_size=3, max_size=25))
def test_many_histories(database: Database, story: list[Move]) -> None:
    play_all(database, story)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@settings(max_examples=12, deadline=None, suppress_health_check=FIXTURES, derandomize=True)
@given(st.lists(moves, min_size=12, max_size=25))
def test_some_histories(database: Database, story: list[Move]) -> None:
    play_all(database, story)
