"""Work off what transactions have left for supervisors: a bounded part of it in each transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, select

from sqljobs.schema.chunks import CHUNK, chunks
from sqljobs.schema.edges import recheck
from sqljobs.schema.ends import End, children_of, lock_rows
from sqljobs.schema.members import count_ends, is_over, roll_up
from sqljobs.schema.moves import by_primary_key
from sqljobs.schema.settling import Settling
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_intents
from sqljobs.schema.transactions import Transaction


def work_off(tx: Transaction) -> int:
    """Do what is left, oldest first, until 500 neighbours were touched; returns how many intents are fewer for that, at
    least.

    What another transaction holds is left for the next time: nothing is waited for. What is left over of an intent is
    left anew, in this transaction."""
    oldest = select(job_intents).order_by(job_intents.c.id).limit(CHUNK)
    intents = tx.execute("intents", tx.dialect.lock(by_primary_key(oldest, job_intents), skip_locked=True)).all()
    rows = {row.id: row for row in lock_rows(tx, "lock", {one.job_id for one in intents}, skip_locked=True)}
    mine = [one for one in intents if one.job_id in rows]
    work = Settling(tx, quietly=True)
    ended = [End.of(rows[one.job_id]) for one in mine if one.kind == "child" and _has_ended(rows[one.job_id])]
    over, uncounted = count_ends(tx, ended)
    done = [one.id for one in mine if one.kind == "child" and one.job_id not in uncounted]
    work.run(over)
    for one in mine:
        if one.kind != "child" and work.left > 0:
            done.append(one.id)
            _act(tx, work, one, rows[one.job_id])
    for chunk in chunks(done):
        tx.execute("done", delete(job_intents).where(job_intents.c.id.in_(chunk)))
    return max(0, len(done) - work.held)


def _has_ended(row: Any) -> bool:
    return State(row.state) in FINAL


def _act(tx: Transaction, work: Settling, intent: Any, row: Any) -> None:
    if intent.kind == "edges" and _has_ended(row):
        work.settle_edges({row.id: End.of(row)}, after_id=intent.after_id)
    elif intent.kind == "members":
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
