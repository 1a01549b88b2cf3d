"""Moves of a story through the real transactions. Each says what the model must make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import insert, select, update

from sqljobs.schema.cancel import cancel
from sqljobs.schema.chores import work_off
from sqljobs.schema.claim import Claimer, claim
from sqljobs.schema.columns import JsonText
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.enqueue import Within, enqueue_many
from sqljobs.schema.finalize import Spawned, finalize, start
from sqljobs.schema.late_edges import check_edges, settle_ended
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import promote_due
from sqljobs.schema.retry import retry, skip
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction
from tests.schema.graph_model import Described, Model
from tests.schema.graph_operators import REFUSED
from tests.schema.graph_rules import FINAL, Closing
from tests.schema.graph_stories import WILD, Drawn, Move, described, moved, specs_of, turned
from tests.schema.graph_verdicts import DOOR, nothing, same_reopened, unless_refused, was_refused, was_refused_to
from tests.schema.playing import NO_DELAY, no_options
from tests.schema.test_histories import SUPERVISOR

CLOSED = ("dependency", "not_needed")
CLAIMER = Claimer("a/1", "a", 60.0)
MANY_ROUNDS = 100
Retell = Callable[[Model], None]
Row = tuple[str, str | None, int | None, Any]
End = tuple[Cause, bool, list[Drawn], list[Drawn]]


@dataclass
class World:
    """The rows, and the fences handed out."""

    tx: Transaction
    rows: dict[int, Any] = field(default_factory=dict)
    fences: dict[int, Fence] = field(default_factory=dict)
    is_undefined: Callable[[Sequence[int]], bool] = lambda _ids: False  # whether a retry or skip of these is

    def __post_init__(self) -> None:
        values = {**SUPERVISOR, "started_at": self.tx.now, "heartbeat_at": self.tx.now}
        self.tx.conn.execute(insert(job_supervisors).values(**values))

    def play(self, move: Move) -> Retell:
        retell: Retell = getattr(self, f"_{move[0].replace(' ', '_')}")(*move[1:])
        return retell

    def look(self) -> None:
        """As supervisors do it: edges that nobody has looked at yet, and what is left of large neighbourhoods."""
        for _ in range(MANY_ROUNDS):
            looked, ended = check_edges(self.tx)
            for upstream in ended:
                settle_ended(self.tx, upstream)
            if not looked and not work_off(self.tx):
                return
        raise AssertionError("the supervisors never come to rest")

    def read(self) -> None:
        self.rows = {row.id: row for row in self.tx.conn.execute(select(jobs).order_by(jobs.c.id))}

    def snapshot(self) -> dict[int, Row]:
        """(state, reason, culprit, result) of every job."""
        return {i: (row.state, row.reason, row.reason_job_id, row.result) for i, row in self.rows.items()}

    def closings(self) -> dict[int, Closing]:
        """Jobs that were closed because of others."""
        closed = {i: row for i, row in self.rows.items() if row.reason in CLOSED}
        return {i: (row.reason, row.reason_job_id) for i, row in closed.items()}

    # The moves.

    def _enqueue(self, drawn: Sequence[Drawn], turn: bool) -> Retell:
        made = described(drawn, list(self.rows), self._boxes())
        return self._put(turned(made) if turn else made, awaits_child=False)

    def _enqueue_one(self, drawn: Drawn) -> Retell:
        return self._put(described([drawn], list(self.rows), self._boxes()), awaits_child=True)

    def _enqueue_within(self, n: int, drawn: Sequence[Drawn]) -> Retell:
        """A handler that enqueues at once, below itself unless the jobs are to be nested."""
        flying = [i for i, row in self.rows.items() if row.in_flight]
        if not flying:
            return nothing
        job_id = flying[n % len(flying)]
        return self._put(described(drawn, list(self.rows), [job_id]), awaits_child=False, within=job_id)

    def _put(self, made: list[Described], *, awaits_child: bool, within: int = 0) -> Retell:
        try:
            put = enqueue_many(
                self.tx,
                specs_of(made),
                no_options,
                lambda _type, _args: None,
                awaits_child=awaits_child,
                within=Within(running=within or None),
            )
        except DOOR as error:
            return partial(was_refused, made=made, error=error, within=within)
        ids = [one.id for one in put]
        created = [one.created for one in put]

        def retell(model: Model) -> None:
            before = set(model.jobs)
            told = model.enqueue(made, ids, awaits_child=awaits_child, within=within)
            assert told == ids, f"{told} {ids}: {made}"
            assert created == [i not in before and i not in ids[:place] for place, i in enumerate(ids)]

        return retell

    def _claim(self, chosen: Sequence[int]) -> Retell:
        ids = self._some(chosen, list(self.rows))
        leases = claim(self.tx, CLAIMER, ids, no_options)
        self.fences |= {one.job_id: one.fence for one in leases}
        claimed = [one.job_id for one in leases]

        def retell(model: Model) -> None:
            assert [i for i in ids if model.claim(i) != REFUSED] == claimed

        return retell

    def _run(self, n: int, end: End) -> Retell:
        """The whole attempt of a job that is ready."""
        ready = [i for i, row in self.rows.items() if row.state == "ready"]
        if not ready:
            return nothing
        job_id = ready[n % len(ready)]
        (lease,) = claim(self.tx, CLAIMER, [job_id], no_options)
        self.fences[job_id] = lease.fence
        rest = self._end_of(job_id, end)

        def retell(model: Model) -> None:
            assert model.claim(job_id) is True
            rest(model)

        return retell

    def _end(self, n: int, end: End) -> Retell:
        flying = [i for i, row in self.rows.items() if row.in_flight]
        return self._end_of(flying[n % len(flying)], end) if flying else nothing

    def _end_of(self, job_id: int, end: End) -> Retell:
        cause, reached, children, followers = end
        # A child's parent is the job itself, or another child.
        inside = [one._replace(parent=None) if (one.parent or 0) >= WILD else one for one in children]
        own = described(inside, list(self.rows), [])
        following = described(followers, list(self.rows), self._boxes())
        spawned = Spawned(children=specs_of(own), followers=specs_of(following, len(own)))
        fence = self.fences[job_id]
        if reached or cause in (Cause.DONE, Cause.SNOOZED):
            start(self.tx, fence, pid=1)
        outcome = Outcome(cause, result=JsonText(str(job_id)) if cause is Cause.DONE else None, deploy=True)
        made = [*own, *moved(following, len(own))]
        point = self.tx.conn.begin_nested()
        try:
            assert finalize(self.tx, fence, outcome, NO_DELAY, spawned=spawned) is not None
        except DOOR as error:
            point.rollback()
            below = [replace(one, parent=job_id) if one.parent is None else one for one in own]
            return partial(was_refused_to, job_id=job_id, made=[*below, *made[len(own) :]], error=error)
        point.commit()
        before = set(self.rows)
        self.read()
        new = {int(row.group_key): i for i, row in self.rows.items() if i not in before}
        ids = [new[place] for place in sorted(new)]

        def retell(model: Model) -> None:
            told = model.end(job_id, cause.value, result=job_id, children=own, followers=made[len(own) :], ids=ids)
            assert told == ids, f"{told} {ids}: {made}"

        return retell

    def _cancel(self, chosen: Sequence[int], any_job: bool) -> Retell:
        pool = [i for i, row in self.rows.items() if any_job or row.state not in FINAL]
        ids = self._some(chosen, pool)
        asked = {i for i, row in self.rows.items() if row.cancel_requested_at is not None}
        changed = unless_refused(lambda: cancel(self.tx, ids))

        def retell(model: Model) -> None:
            told = model.cancel(ids)
            assert (told == REFUSED) == (changed is None)
            assert changed is None or set(told) - asked == set(changed) - asked

        return retell

    def _retry(self, chosen: Sequence[int], any_job: bool) -> Retell:
        bad = [i for i, row in self.rows.items() if row.state in FINAL and row.reason not in (*CLOSED, None)]
        ids = self._some(chosen, list(self.rows) if any_job else bad)
        if self.is_undefined(ids):
            return nothing
        changed = unless_refused(lambda: retry(self.tx, ids))
        return lambda model: same_reopened(model.retry(ids), changed, ids)

    def _skip(self, chosen: Sequence[int], any_job: bool, with_result: bool) -> Retell:
        ids = self._some(chosen, [i for i, row in self.rows.items() if any_job or row.state == "failed"])
        if self.is_undefined(ids):
            return nothing
        changed = unless_refused(lambda: skip(self.tx, ids, JsonText("-1") if with_result else None))
        return lambda model: same_reopened(model.skip(ids, -1 if with_result else None), changed, ids)

    def _time_passes(self) -> Retell:
        ids = [i for i, row in self.rows.items() if row.state == "scheduled"]
        past = self.tx.now - timedelta(seconds=1)
        self.tx.conn.execute(update(jobs).where(jobs.c.id.in_(ids)).values(run_after=past))
        assert promote_due(self.tx, ids) == len(ids)
        return Model.time_passes

    # What there is to choose from.

    def _some(self, chosen: Sequence[int], pool: Sequence[int]) -> list[int]:
        """Distinct ones; small numbers choose what is new."""
        return list(dict.fromkeys(pool[-1 - n % len(pool)] for n in chosen)) if pool else []

    def _boxes(self) -> list[int]:
        """Jobs that may have children."""
        return [
            i for i, row in self.rows.items() if row.state == "waiting" or (row.container and row.state == "blocked")
        ]
