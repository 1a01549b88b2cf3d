"""What limits have left: their rows, and what is counted against them. Reads only; under the gates it is exact."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select

from sqljobs.schema.admission import Account, Kind, Room
from sqljobs.schema.chunks import chunks
from sqljobs.schema.conditions import is_set
from sqljobs.schema.limit_tables import job_charges, job_counters, job_limits
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.windows import length_of, window_at

Asked = tuple[str, str]  # name of a limit, group of the job


def read_rooms(tx: Transaction, asked: Collection[Asked]) -> dict[Asked, Room]:
    """(limit, group) -> what there is of it for a job of that group; limits that do not exist are left out."""
    found = find_rooms(tx, asked)
    _count(tx, list({room.account: room for room in found.values()}.values()))
    return found


def find_rooms(tx: Transaction, asked: Collection[Asked]) -> dict[Asked, Room]:
    """The same, but nothing is counted: which accounts there are, and what they may have."""
    rooms: dict[Account, Room] = {}
    found: dict[Asked, Room] = {}
    rules = _rules(tx, asked)
    for name, group in sorted(asked):
        shared = rules.get((name, ""))
        rule = rules.get((name, group)) or shared
        if rule is None:
            continue
        account = Account(name, group if rule.each_group else "")
        room = rooms.setdefault(account, Room(account, Kind(rule.kind), rule.amount, per=rule.per))
        found[name, group] = room
    return found


def is_live() -> ColumnElement[bool]:
    """SQL: of charges beside jobs, those of attempts that are in flight."""
    return and_(jobs.c.id == job_charges.c.job_id, jobs.c.attempt == job_charges.c.attempt, is_set(jobs.c.in_flight))


def _rules(tx: Transaction, asked: Collection[Asked]) -> dict[Asked, Any]:
    names = sorted({name for name, _ in asked})
    groups = sorted({"", *(group for _, group in asked)})
    rules: dict[Asked, Any] = {}
    for some_names in chunks(names):
        for some_groups in chunks(groups):
            statement = select(job_limits).where(
                job_limits.c.name.in_(some_names), job_limits.c.group_key.in_(some_groups)
            )
            rules |= {(row.name, row.group_key): row for row in tx.execute("limits", statement)}
    # A group's own amount counts where groups count on their own.
    return {asked: row for asked, row in rules.items() if asked[1] == "" or row.each_group}


def _count(tx: Transaction, rooms: Sequence[Room]) -> None:
    _count_held(tx, [room for room in rooms if room.kind is Kind.RESOURCE])
    for name, per in sorted({(room.account.name, room.per) for room in rooms if room.kind is Kind.RATE}):
        _count_begun(tx, [room for room in rooms if (room.account.name, room.per) == (name, per)])
    for name, per in sorted({(r.account.name, r.per or "") for r in rooms if r.kind is Kind.BUDGET}):
        _count_spent(tx, [room for room in rooms if (room.account.name, room.per or "") == (name, per)])


def _count_held(tx: Transaction, rooms: Sequence[Room]) -> None:
    """From live rows: what an attempt held that is no longer in flight counts no more, whatever became of its row."""
    by_account = {room.account: room for room in rooms}
    for names, groups in _portions(rooms):
        statement = (
            select(job_charges.c.name, job_charges.c.group_key, tx.dialect.total(job_charges.c.amount).label("used"))
            .join(jobs, is_live())
            .where(job_charges.c.name.in_(names), job_charges.c.group_key.in_(groups))
            .group_by(job_charges.c.name, job_charges.c.group_key)
        )
        for row in tx.execute("held", statement):
            room = by_account.get(Account(row.name, row.group_key))
            if room is not None:
                room.used = row.used


def _count_begun(tx: Transaction, rooms: Sequence[Room]) -> None:
    by_group = {room.account.group: room for room in rooms}
    length = length_of(rooms[0].per or "0")
    for names, groups in _portions(rooms):
        statement = (
            select(
                job_charges.c.group_key,
                tx.dialect.total(job_charges.c.amount).label("used"),
                func.min(job_charges.c.counted_at).label("first"),
            )
            .where(
                job_charges.c.name.in_(names),
                job_charges.c.group_key.in_(groups),
                job_charges.c.counted_at > tx.now - length,
                job_charges.c.amount > 0,
            )
            .group_by(job_charges.c.group_key)
        )
        for row in tx.execute("begun", statement):
            room = by_group[row.group_key]
            room.used, room.frees_at = row.used, row.first + length


def _count_spent(tx: Transaction, rooms: Sequence[Room]) -> None:
    window = window_at(rooms[0].per, tx.now)
    by_group = {room.account.group: room for room in rooms}
    for room in rooms:
        room.period, room.frees_at = window.key, window.end
    for names, groups in _portions(rooms):
        statement = select(job_counters.c.group_key, job_counters.c.used).where(
            job_counters.c.name.in_(names), job_counters.c.group_key.in_(groups), job_counters.c.period == window.key
        )
        for row in tx.execute("spent", statement):
            by_group[row.group_key].used = row.used


def _portions(rooms: Sequence[Room]) -> Iterable[tuple[list[str], Sequence[str]]]:
    """Names and groups of these accounts, a bounded number at once."""
    if rooms:
        names = sorted({room.account.name for room in rooms})
        for groups in chunks(sorted({room.account.group for room in rooms})):
            yield names, groups
