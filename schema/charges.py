"""What attempts have of limits: reserved by the claim, under the gates, and settled with the attempt's end.

Whoever writes here holds the row of the job, and takes no lock on jobs after those on counters: nothing deadlocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import case, delete, exists, insert, literal, select, update

from sqljobs.schema.admission import Account, Kind, Room, admit
from sqljobs.schema.amounts import MAX_TOTAL, micros_of
from sqljobs.schema.chunks import chunks
from sqljobs.schema.columns import Micros
from sqljobs.schema.conditions import in_pairs
from sqljobs.schema.limit_tables import GATE, job_charges, job_counters
from sqljobs.schema.moves import Fence
from sqljobs.schema.rooms import find_rooms, read_rooms
from sqljobs.schema.transactions import Transaction

Uses = Mapping[str, Decimal]


@dataclass(frozen=True)
class Wish:
    """A job that would start: what it uses of limits, by name. `devices`: names that its supervisor has units for."""

    job_id: int
    group: str
    uses: Uses
    devices: Collection[str] = ()


def reserve(tx: Transaction, wishes: Sequence[Wish]) -> dict[int, list[tuple[Room, int]]]:
    """Which of these may start, in their order, and what each has of which room, in millionths.

    Locks the gate of each account that is asked for; where another holds one, who asks for it waits for the next time,
    so that nobody is waited for."""
    asking = {wish.job_id: wish for wish in wishes if wish.uses}
    admitted: dict[int, list[tuple[Room, int]]] = {wish.job_id: [] for wish in wishes if not wish.uses}
    if not asking:
        return admitted
    asked = {(name, wish.group) for wish in asking.values() for name in wish.uses}
    open_gates = lock_gates(tx, {room.account for room in find_rooms(tx, asked).values()}, skip_locked=True)
    rooms = read_rooms(tx, asked)  # now that nobody else can be admitted
    for wish in wishes:
        if wish.job_id not in asking:
            continue
        mine = {name: rooms[name, wish.group] for name in wish.uses if (name, wish.group) in rooms}
        counted = {name: micros_of(amount) for name, amount in wish.uses.items() if name in mine}
        unknown = wish.uses.keys() - mine.keys() - set(wish.devices)
        if unknown or any(room.account not in open_gates for room in mine.values()):
            continue
        if admit(counted, mine) is None:
            admitted[wish.job_id] = [(mine[name], amount) for name, amount in counted.items()]
    return admitted


def lock_gates(tx: Transaction, accounts: Collection[Account], *, skip_locked: bool = False) -> set[Account]:
    """Lock the gates of these accounts, in the order of their names; returns those that are ours now."""
    wanted = sorted(accounts)
    held = _lock_gates(tx, wanted, skip_locked=skip_locked)
    missing = [account for account in wanted if account not in held]
    if missing:
        there = {Account(row.name, row.group_key) for row in _each(tx, "gates", _gates(missing))}
        absent = [account for account in missing if account not in there]
        if absent:
            _write_missing(tx, absent, GATE)
            held |= _lock_gates(tx, absent, skip_locked=skip_locked)
    return held


def _lock_gates(tx: Transaction, accounts: Sequence[Account], *, skip_locked: bool) -> set[Account]:
    statements = (
        tx.dialect.lock(statement.order_by(job_counters.c.name, job_counters.c.group_key), skip_locked=skip_locked)
        for statement in _gates(accounts)
    )
    return {Account(row.name, row.group_key) for row in _each(tx, "lock_gates", statements)}


def _gates(accounts: Sequence[Account]) -> Iterable[Any]:
    for chunk in chunks(accounts):
        yield select(job_counters.c.name, job_counters.c.group_key).where(
            in_pairs(job_counters.c.name, job_counters.c.group_key, chunk), job_counters.c.period == GATE
        )


def _each(tx: Transaction, what: str, statements: Iterable[Any]) -> Iterable[Any]:
    for statement in statements:
        yield from tx.execute(what, statement).all()


def _write_missing(tx: Transaction, accounts: Sequence[Account], period: str) -> None:
    for account in accounts:
        tx.step("new_counter")
        row = {"name": account.name, "group_key": account.group, "period": period, "used": 0}
        tx.dialect.upsert(tx.conn, job_counters, row, {})


def write_charges(tx: Transaction, reserved: Iterable[tuple[int, int, Room, int]]) -> None:
    """What a claim has reserved: (job, its new attempt, room, amount)."""
    rows: list[dict[str, Any]] = []
    totals: dict[tuple[Account, str], int] = {}
    for job_id, attempt, room, amount in reserved:
        rows.append(charge(Fence(job_id, attempt, ""), room, tx.now, amount, estimate=True))
        if room.kind is Kind.BUDGET:
            totals[room.account, room.period] = totals.get((room.account, room.period), 0) + amount
    if rows:
        tx.execute("charges", insert(job_charges), rows)
    for (account, period), total in sorted(totals.items()):
        add_to_counter(tx, account, period, total)


def charge(fence: Fence, room: Room, at: datetime, amount: int, *, estimate: bool) -> dict[str, Any]:
    """A row of what an attempt has of `room`."""
    return {
        "name": room.account.name,
        "group_key": room.account.group,
        "job_id": fence.job_id,
        "attempt": fence.attempt,
        "kind": room.kind.value,
        "period": room.period,
        "counted_at": at,
        "amount": amount,
        "estimate": estimate,
    }


def add_to_counter(tx: Transaction, account: Account, period: str, amount: int, *, create: bool = True) -> None:
    """Count `amount` (below 0: count so much less) in one window of a budget. Without `create` only where it is."""
    if amount == 0:
        return
    statement = (
        update(job_counters)
        .where(
            job_counters.c.name == account.name,
            job_counters.c.group_key == account.group,
            job_counters.c.period == period,
        )
        .values(used=_more(amount))
    )
    if tx.execute("count", statement).rowcount == 0 and create:
        _write_missing(tx, [account], period)
        tx.execute("count", statement)


def _more(amount: int) -> Any:
    """SQL: the counter and `amount`, but no more than it can hold."""
    most, used = literal(MAX_TOTAL, Micros), job_counters.c.used
    return used + amount if amount < 0 else case((used > MAX_TOTAL - amount, most), else_=used + amount)


def settle_charges(tx: Transaction, fence: Fence, spent: Uses | None, *, died: bool, reached: bool) -> None:
    """With the end of an attempt: what it held is free, and of what was estimated it is charged nothing if it spent
    something by itself, or if its handler was not `reached`; where its process `died`, what it had not yet spent of the
    estimate is charged as well."""
    mine = (job_charges.c.job_id == fence.job_id, job_charges.c.attempt == fence.attempt)
    rows = tx.execute("charged", select(job_charges).where(*mine)).all()
    over: list[int] = []
    refunds: dict[tuple[Account, str], int] = {}
    for row in rows:
        forgiven = row.estimate and (not reached or (not died and row.name in (spent or {})))
        if row.kind != Kind.RATE.value or forgiven:
            over.append(row.id)
        if row.kind == Kind.BUDGET.value and forgiven:
            key = (Account(row.name, row.group_key), row.period)
            refunds[key] = refunds.get(key, 0) - row.amount
    for chunk in chunks(sorted(over)):
        tx.execute("free", delete(job_charges).where(job_charges.c.id.in_(chunk)))
    for (account, period), amount in sorted(refunds.items()):
        add_to_counter(tx, account, period, amount, create=False)


def has_charges(job_id: Any, attempt: Any) -> Any:
    """SQL: whether this attempt has any."""
    return exists().where(job_charges.c.job_id == job_id, job_charges.c.attempt == attempt)
