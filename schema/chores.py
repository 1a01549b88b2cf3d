"""Work off what transactions have left for supervisors: a bounded part of it in each transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import or_, select

from sqljobs.schema.chunks import CHUNK, chunks
from sqljobs.schema.edges import recheck
from sqljobs.schema.ends import End, children_of, lock_rows
from sqljobs.schema.intents import forget, forget_undone, take_back
from sqljobs.schema.members import count_ends, is_over, recount, roll_up
from sqljobs.schema.moves import by_primary_key
from sqljobs.schema.settling import Settling
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_intents, jobs
from sqljobs.schema.transactions import Transaction

MOST_NAMED = 2000


def work_off(tx: Transaction) -> int:
    """Do what is left, oldest first, until 500 neighbours were touched; returns how many intents are fewer for that, at
    least.

    What another transaction holds is left for the next time, and what comes after it is not: nothing is waited for.
    What is left over of an intent is left anew, in this transaction."""
    mine, rows = _free(tx)
    work = Settling(tx, quietly=True)
    ended = [one for one in mine if one.kind == "child"]
    ids = {one.job_id for one in ended}
    take_back(tx, "child", ids)  # first, since what has an intent is not counted; and all, since it is counted once
    over, _ = count_ends(tx, [End.of(rows[job_id]) for job_id in sorted(ids) if _has_ended(rows[job_id])])
    work.run(over)
    done = len(ended)
    for one in mine:
        if one.kind != "child" and work.left > 0:
            forget(tx, [one.id])
            _act(tx, work, one, rows[one.job_id])
            done += 1
    return max(0, done - work.held)


def _free(tx: Transaction) -> tuple[list[Any], dict[int, Any]]:
    """The oldest intents whose rows nobody else holds, about 500, locked, and these rows: the job's, and its parent's
    where that is to count it."""
    found: list[Any] = []
    rows: dict[int, Any] = {}
    held: set[int] = set()
    after_id = 0
    while len(found) < CHUNK:
        page = _page(tx, after_id, held)
        wanted = {job_id for one in page for job_id in _concerned(one)} - rows.keys() - held
        rows |= {row.id: row for row in lock_rows(tx, "lock", wanted, skip_locked=True)}
        held |= wanted - rows.keys()
        found += [one for one in page if _concerned(one) <= rows.keys()]
        if len(page) < CHUNK:
            break
        after_id = page[-1].id
    locked: set[int] = set()
    for chunk in chunks([one.id for one in found]):  # another supervisor may have been faster
        chosen = select(job_intents.c.id).where(job_intents.c.id.in_(chunk)).order_by(job_intents.c.id)
        lock = tx.dialect.lock(by_primary_key(chosen, job_intents), skip_locked=True)
        locked |= set(tx.execute("lock_intents", lock).scalars())
    return [one for one in found if one.id in locked], rows


def _page(tx: Transaction, after_id: int, held: Collection[int]) -> Sequence[Any]:
    """The next intents, with the parents of their jobs, without those that concern jobs that are known to be held: of
    these there may be any number."""
    named = sorted(held)[:MOST_NAMED]
    counted_in_free = or_(job_intents.c.kind != "child", jobs.c.parent_id.is_(None), jobs.c.parent_id.not_in(named))
    statement = (
        select(job_intents, jobs.c.parent_id)
        .join(jobs, jobs.c.id == job_intents.c.job_id)
        .where(job_intents.c.id > after_id, job_intents.c.job_id.not_in(named), counted_in_free)
        .order_by(job_intents.c.id)
        .limit(CHUNK)
    )
    return tx.execute("intents", statement).all()


def _concerned(intent: Any) -> set[int]:
    job_id: int = intent.job_id
    parent_id: int | None = intent.parent_id if intent.kind == "child" else None
    return {job_id} if parent_id is None else {job_id, parent_id}


def _has_ended(row: Any) -> bool:
    return State(row.state) in FINAL


def _act(tx: Transaction, work: Settling, intent: Any, row: Any) -> None:
    if intent.kind == "edges" and _has_ended(row):
        work.settle_edges({row.id: End.of(row)}, after_id=intent.after_id)
    elif intent.kind == "members":
        if intent.after_id:
            forget_undone(tx, row.id)
            recount(tx, row.id)  # also where it still runs: so its end, if it waits for us, learns that it has members
        _align_members(tx, work, row)
    elif intent.kind == "recheck":
        recheck(tx, row.id)
    work.run()


def _align_members(tx: Transaction, work: Settling, container: Any) -> None:
    """Bring the members of a container in line with it, and end it where none is open any more."""
    (row,) = lock_rows(tx, "lock", [container.id])  # it may have changed in this very transaction
    if _has_ended(row):
        work.end_members([End.of(row)])
    elif row.cancel_requested_at is not None:
        work.cancel_members(row.id)
    elif row.state == State.WAITING.value:
        work.open_members([row.id])
    (row,) = lock_rows(tx, "lock", [container.id])
    children = children_of(row)
    if is_over(row, children):
        work.run(roll_up(tx, [row], {row.id: children}))
