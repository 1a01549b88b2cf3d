"""What keeps ended jobs from being opened again: the jobs around them, a key that is taken, a circle."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import select

from sqljobs.schema.circles import circle_if_open
from sqljobs.schema.conditions import in_pairs
from sqljobs.schema.errors import Refused
from sqljobs.schema.families import find_around
from sqljobs.schema.graph import NOT_NEEDED
from sqljobs.schema.reopen import Reopening, is_closed_for_others, still_doomed
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction


def refuse_reopening(tx: Transaction, found: Reopening, opened: Collection[int], rows: Collection[Any]) -> None:
    """Raise `Refused` where one of `opened`, which are of what was `found`, must stay as it is; `rows`: theirs."""
    for job_id, row in still_doomed(tx, found.roots & set(opened), found.all).items():
        raise Refused(f"job {job_id} waits for job {row.id}, which is {row.state}: retry {row.id}, too, or first")
    why = hindrance(tx, found, opened)
    if why:
        raise Refused(why)
    _refuse_taken_keys(tx, found, rows)


def hindrance(tx: Transaction, found: Reopening, opened: Collection[int]) -> str | None:
    """What is in the way of opening `opened` again, which are of what was `found`: what is around them, or a circle."""
    mended = found.roots | found.doomed
    started = found.roots & set(opened)

    def stays(row: Any) -> bool:
        if State(row.state) not in FINAL:
            return row.cancel_requested_at is not None
        if not row.container:
            return row.id not in started
        return row.state == State.DONE.value or is_closed_for_others(row, mended)

    around = find_around(tx, opened, stays)
    for job_id in sorted(around, key=lambda i: (i not in found.roots, i)):
        return f"job {job_id} is part of job {around[job_id].id}, which {_how_it_stays(around[job_id])}"
    circle = circle_if_open(tx, opened) if opened else None
    return f"job {min(found.all)} stays as it is, since else {circle}; cancel one of these first" if circle else None


def _how_it_stays(row: Any) -> str:
    if State(row.state) not in FINAL:
        return "is being cancelled: wait until it has ended"
    if row.state == State.DONE.value:
        return "is done"
    if row.reason == NOT_NEEDED:
        return "was not needed"
    if row.reason == "dependency":
        return f"was cancelled because of job {row.reason_job_id}: retry {row.reason_job_id}, which reopens it"
    return f"has ended by itself: retry {row.id}"


def _refuse_taken_keys(tx: Transaction, found: Reopening, rows: Iterable[Any]) -> None:
    holders: dict[tuple[str, str], int] = {}
    rows = list(rows)
    for row in rows:
        if row.key is not None and holders.setdefault((row.type, row.key), row.id) != row.id:
            first = holders[row.type, row.key]
            raise Refused(f"jobs {first} and {row.id} have one key, {row.key!r}: retry only one of them")
    for (_, key), holder in taken_keys(tx, rows).items():
        if holder not in found.all:
            raise Refused(f"the key {key!r} is taken by job {holder} meanwhile: cancel that one, or leave it")


def taken_keys(tx: Transaction, rows: Iterable[Any]) -> dict[tuple[str, str], int]:
    """(type, key) -> job that holds it, of those that `rows` have."""
    pairs = [(row.type, row.key) for row in rows if row.key is not None]
    if not pairs:
        return {}
    statement = select(jobs.c.id, jobs.c.type, jobs.c.key).where(in_pairs(jobs.c.type, jobs.c.key_slot, pairs))
    return {(row.type, row.key): row.id for row in tx.execute("keys", statement)}
