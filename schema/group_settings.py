"""The weights that operators give groups, in place of those that jobs bring along."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.control_tables import job_groups
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.values import check_count, check_name
from sqljobs.schema.wake import wake


def set_group(tx: Transaction, name: object, *, weight: object) -> dict[str, Any]:
    """Give a group a weight of its own, whatever its jobs say; returns its line of `list_groups`.

    Raises `InvalidJob`."""
    group, checked = check_name("group", name), check_count("weight", weight)
    tx.step("set")
    tx.dialect.upsert(tx.conn, job_groups, {"group_key": group, "weight": checked}, {"weight": checked})
    wake(tx)
    return {"group": group, "weight": checked}


def list_groups(tx: Transaction) -> list[dict[str, Any]]:
    """`{group, weight}` of each group that was given a weight, by name."""
    rows = tx.execute("groups", select(job_groups).order_by(job_groups.c.group_key))
    return [{"group": row.group_key, "weight": row.weight} for row in rows]


def read_weights(tx: Transaction, groups: Collection[str]) -> dict[str, int]:
    """Group -> the weight that it was given, for those of `groups` that were."""
    found: dict[str, int] = {}
    for chunk in chunks(sorted(groups)):
        rows = tx.execute("weights", select(job_groups).where(job_groups.c.group_key.in_(chunk)))
        found |= {row.group_key: row.weight for row in rows}
    return found
