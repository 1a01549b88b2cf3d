"""Edges that were committed around their upstream's end: a supervisor looks at each once."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from sqljobs.schema.chunks import CHUNK
from sqljobs.schema.conditions import is_set, is_unset
from sqljobs.schema.edges import look_again, mark_checked, unchecked_upstreams, unsatisfy
from sqljobs.schema.ends import End, lock_rows
from sqljobs.schema.refusals import hindrance, taken_keys
from sqljobs.schema.reopen import find_closed, reopen, to_lock
from sqljobs.schema.settling import Settling, resettle
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction


def check_edges(tx: Transaction) -> tuple[int, list[int]]:
    """Look at edges that were committed while their upstream looked open.

    Returns how many upstreams were looked at, and those that have ended, for `settle_ended`. One that is locked, by its
    finalize perhaps, is left for the next time, and so is one whose dependents are: nothing is waited for, so nothing
    can be deadlocked. If it is open under our lock, its end comes later and will see the edge, which is `checked` from
    now on."""
    after_id = 0
    while True:
        some = unchecked_upstreams(tx, after_id)
        rows = lock_rows(tx, "lock_upstreams", some, skip_locked=True)
        still_open = {row.id for row in rows if State(row.state) not in FINAL}
        free = still_open - _revive(tx, still_open)
        free -= unsatisfy(tx, free, skip_locked=True)
        mark_checked(tx, sorted(free))
        ended = [row.id for row in rows if State(row.state) in FINAL]
        if free or ended or len(some) < CHUNK:
            return len(free) + len(ended), ended
        after_id = some[-1]  # all of these are held, and may be for long: those behind them are not to wait


def settle_ended(tx: Transaction, upstream: int) -> bool:
    """Settle the edges to one upstream that has ended already; False when some are left, for another transaction."""
    rows = lock_rows(tx, "lock_upstream", [upstream], skip_locked=True)
    if not rows:
        return False
    if State(rows[0].state) not in FINAL:
        return True
    if State(rows[0].state) is State.DONE and _revive(tx, {upstream}):
        return False
    work = Settling(tx)
    all_settled = work.settle_edges({upstream: End.of(rows[0])}, unchecked=True)
    work.run()
    # What a bad end had satisfied at the enqueue. Others that are committed meanwhile are yet to be settled.
    mark_checked(tx, [upstream], is_set(job_deps.c.satisfied))
    return all_settled


def _revive(tx: Transaction, upstreams: Collection[int]) -> set[int]:
    """Open again what was enqueued, and so cancelled, after one of `upstreams` had ended badly and before the retry of
    it was seen: that retry could not see the job. `upstreams`: open or done by now. Returns those to be looked at
    another time, since somebody holds what is to be opened, or what is around it."""
    concerned = _wrongly_closed(tx, upstreams)
    if not concerned:
        return set()
    found = find_closed(tx, concerned, set(), around_roots=False)
    found.roots = set()
    wanted = to_lock(tx, found)
    rows = {row.id: row for row in lock_rows(tx, "lock", wanted, skip_locked=True)}
    if wanted - rows.keys():
        return concerned
    taken = taken_keys(tx, [rows[job_id] for job_id in found.all])
    found.doomed -= {i for i in found.doomed if (rows[i].type, rows[i].key) in taken}
    if found.all and hindrance(tx, found, found.all) is None:
        reopen(tx, found, rows)
        look_again(tx, sorted(found.all))
        resettle(tx, lock_rows(tx, "opened", found.all))
    return set()


def _wrongly_closed(tx: Transaction, upstreams: Collection[int]) -> set[int]:
    """Those of `upstreams` that have such followers."""
    if not upstreams:
        return set()
    followers = (
        select(job_deps.c.depends_on_id)
        .join(jobs, jobs.c.id == job_deps.c.job_id)
        .where(
            job_deps.c.depends_on_id.in_(sorted(upstreams)),
            is_unset(job_deps.c.checked),
            jobs.c.state == State.CANCELLED.value,
            jobs.c.reason == "dependency",
        )
    )
    return set(tx.execute("wrongly_closed", followers.distinct()).scalars())
