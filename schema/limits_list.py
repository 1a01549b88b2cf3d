"""Limits and how much of them is left: the lines of `limit list` and of `status`. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select

from sqljobs.schema.admission import Account, Kind
from sqljobs.schema.amounts import number_of
from sqljobs.schema.limit_rules import Limit
from sqljobs.schema.limit_settings import stored_limits
from sqljobs.schema.limit_tables import GATE, job_charges, job_counters
from sqljobs.schema.rooms import is_live, read_rooms
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.windows import length_of, shown_per, window_at

HOLDERS_SHOWN = 100


def list_limits(tx: Transaction) -> list[dict[str, Any]]:
    """One line for each limit, by name, as plain JSON values: name, kind, group, amount, per (seconds, `day`, `month`),
    used, left, holders (ids of at most 100 jobs in flight that have some), each.

    Of a limit with a counter for each group one line without used and left, and one for each group that has an amount
    of its own, or has had some in the present window."""
    stored = stored_limits(tx)
    shared = {row.name: row for row in stored if not row.group}
    accounts = {Account(row.name, row.group) for row in stored if row.group or not row.each}
    for limit in {row.name: row for row in stored if row.each}.values():
        # One for all groups is told of; with none, only groups with an amount of their own have any.
        if limit.name in shared:
            accounts |= {Account(limit.name, group) for group in _groups(tx, limit)}
    rooms = read_rooms(tx, accounts)
    holders = _holders(tx, accounts)
    lines = []
    for name in sorted({row.name for row in stored}, key=str.encode):
        if name in shared and shared[name].each:
            lines.append(limit_line(shared[name]))
        for account in sorted((one for one in accounts if one.name == name), key=lambda one: one.group.encode()):
            room = rooms.get(account)
            if room is not None:
                own = [row for row in stored if (row.name, row.group) == account]
                limit = own[0] if own else shared[name]
                used = {"used": number_of(room.used), "left": number_of(room.left)}
                group = account.group or None
                lines.append({**limit_line(limit), "group": group, **used, "holders": holders.get(account, [])})
    return lines


def limit_line(limit: Limit) -> dict[str, Any]:
    """What the row itself says, in the form of `list_limits`; used and left are None."""
    return {
        "name": limit.name,
        "kind": limit.kind,
        "group": limit.group or None,
        "amount": number_of(limit.amount),
        "per": shown_per(limit.per),
        "used": None,
        "left": None,
        "holders": [],
        "each": "group" if limit.each else None,
    }


def _groups(tx: Transaction, limit: Limit) -> Iterable[str]:
    """Groups that have had some of it, now or in its present window."""
    if limit.kind == Kind.BUDGET:
        statement = select(job_counters.c.group_key).where(
            job_counters.c.name == limit.name,
            job_counters.c.period == window_at(limit.per, tx.now).key,
            job_counters.c.period != GATE,
            job_counters.c.used != 0,
        )
    elif limit.kind == Kind.RATE:
        statement = (
            select(job_charges.c.group_key)
            .where(job_charges.c.name == limit.name, job_charges.c.counted_at > tx.now - length_of(limit.per or "0"))
            .distinct()
        )
    else:
        statement = (
            select(job_charges.c.group_key).join(jobs, is_live()).where(job_charges.c.name == limit.name).distinct()
        )
    return [group for group in tx.execute("groups", statement).scalars() if group]


def _holders(tx: Transaction, accounts: Iterable[Account]) -> dict[Account, list[int]]:
    wanted = frozenset(accounts)
    if not wanted:
        return {}
    account = (job_charges.c.name, job_charges.c.group_key)
    place = func.row_number().over(partition_by=account, order_by=job_charges.c.job_id).label("place")
    held = (
        select(*account, job_charges.c.job_id, place)
        .join(jobs, is_live())
        .where(job_charges.c.amount > 0)
        .group_by(*account, job_charges.c.job_id)
        .subquery("held")
    )
    statement = select(held).where(held.c.place <= HOLDERS_SHOWN).order_by(held.c.job_id)
    found: dict[Account, list[int]] = defaultdict(list)
    for row in tx.execute("holders", statement):
        if (one := Account(row.name, row.group_key)) in wanted:
            found[one].append(row.job_id)
    return found
