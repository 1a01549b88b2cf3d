"""Limits as operators set them: their rows alone, never the gates of admission, so that setting one blocks no claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select, update

from sqljobs.schema.limit_rules import Limit, beside, check_limit, refuse_other_kind
from sqljobs.schema.limit_tables import job_charges, job_counters, job_limits
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.values import check_name
from sqljobs.schema.wake import wake


def set_limit(
    tx: Transaction,
    name: object,
    *,
    resource: object = None,
    rate: object = None,
    budget: object = None,
    per: object = None,
    each: object = None,
    group: object = None,
) -> Limit:
    """Make a limit, or replace all that it says but its kind, from the commit on; returns it as it is stored.

    One of `resource`, `rate` (needs `per`, a duration) and `budget` (in all, or `per` a duration, `day` or `month`) is
    the amount, from 0, with at most six decimal places. `each="group"`: every group counts for itself. With `group`
    that group's own amount of such a limit; `per` and `each` are then as stored. Raises `InvalidJob`."""
    kinds = {"resource": resource, "rate": rate, "budget": budget}
    asked = check_limit(name, **kinds, per=per, each=each, group=group)
    stored = stored_limits(tx, asked.name)
    limit = beside(asked, stored)
    _insert(tx, limit)
    # Another may have made it since it was read.
    where = (job_limits.c.name == limit.name, job_limits.c.group_key == limit.group)
    refuse_other_kind(limit, tx.execute("lock", tx.dialect.lock(select(job_limits.c.kind).where(*where))).scalar_one())
    tx.execute(
        "set", update(job_limits).where(*where).values(amount=limit.amount, per=limit.per, each_group=limit.each)
    )
    if not limit.group and any(row.group and row.per != limit.per for row in stored):
        groups = (job_limits.c.name == limit.name, job_limits.c.group_key != "")
        tx.execute("set_groups", update(job_limits).where(*groups).values(per=limit.per))
    wake(tx)
    return limit


def create_limits(tx: Transaction, limits: Mapping[str, Mapping[str, Any]]) -> list[Limit]:
    """Make those of `limits`, name -> keywords of `set_limit`, that are not there; returns them. Changes none.

    Raises `InvalidJob`."""
    made = []
    for name, keywords in limits.items():
        asked = check_limit(name, **keywords)
        stored = stored_limits(tx, asked.name)
        if not any(row.group == asked.group for row in stored):
            made.append(beside(asked, stored))
            _insert(tx, made[-1])
    if made:
        wake(tx)
    return made


def delete_limit(tx: Transaction, name: object, group: object = None) -> list[Limit]:
    """Delete a limit with what was counted of it, or one group's own amount; returns the rows that there were.

    Jobs that run go on, and are not counted if it is made anew. What a group has had still counts where the limit of
    all groups stays. Raises `InvalidJob`."""
    checked = check_name("limit", name)
    only = None if group is None else check_name("group", group)
    stored = stored_limits(tx, checked)
    gone = [row for row in stored if only in (None, row.group)]
    if not gone:
        return []
    counted = only is None or not any(row.group == "" for row in stored)
    for table in (job_limits, job_counters, job_charges) if counted else (job_limits,):
        of_group = [] if only is None else [table.c.group_key == only]
        tx.execute("delete", delete(table).where(table.c.name == checked, *of_group))
    wake(tx)
    return gone


def stored_limits(tx: Transaction, name: str | None = None) -> list[Limit]:
    """The rows of this limit, that of all groups first; without a name those of all limits."""
    statement = select(job_limits).order_by(job_limits.c.name, job_limits.c.group_key)
    if name is not None:
        statement = statement.where(job_limits.c.name == name)
    return [
        Limit(row.name, row.group_key, row.kind, row.amount, row.per, bool(row.each_group))
        for row in tx.execute("limits", statement)
    ]


def _insert(tx: Transaction, limit: Limit) -> None:
    row = {
        "name": limit.name,
        "group_key": limit.group,
        "kind": limit.kind,
        "amount": limit.amount,
        "per": limit.per,
        "each_group": limit.each,
    }
    tx.step("insert")
    tx.dialect.upsert(tx.conn, job_limits, row, {})
