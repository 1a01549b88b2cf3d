"""Forget what counts against no limit any more: starts before the window of a rate, windows of budgets long over."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import delete, select

from sqljobs.schema.admission import Kind
from sqljobs.schema.chunks import CHUNK
from sqljobs.schema.limit_tables import job_charges, job_counters, job_limits
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.windows import key_before, longest

# An attempt may end, and so change what its window was charged, long after that window.
REMEMBERED = timedelta(days=2)
NO_WINDOW = ("", "all")


def counts_in_windows(tx: Transaction) -> bool:
    """Whether any limit counts in windows: else there is nothing to forget."""
    windowed = select(job_limits.c.name).where(job_limits.c.per.is_not(None)).limit(1)
    return tx.execute("windowed", windowed).first() is not None


def forget_old_charges(tx: Transaction) -> int:
    """A bounded number of rows; returns how many. Repeating it does no harm."""
    limits = tx.execute("limits", select(job_limits.c.name, job_limits.c.kind, job_limits.c.per).distinct()).all()
    lengths: dict[tuple[str, str], timedelta] = {}
    for row in limits:
        if row.per is not None:
            key = (row.name, row.kind)
            lengths[key] = max(lengths.get(key, timedelta(0)), longest(row.per))
    forgotten = 0
    for (name, kind), length in sorted(lengths.items()):
        forgotten += _starts(tx, name, length) if kind == Kind.RATE.value else _windows(tx, name, length)
    return forgotten


def _starts(tx: Transaction, name: str, length: timedelta) -> int:
    old = (
        select(job_charges.c.id)
        .where(
            job_charges.c.name == name,
            job_charges.c.kind == Kind.RATE.value,
            job_charges.c.counted_at <= tx.now - length,
        )
        .limit(CHUNK)
    )
    ids = tx.execute("old_starts", old).scalars().all()
    if ids:
        tx.execute("forget_starts", delete(job_charges).where(job_charges.c.id.in_(sorted(ids))))
    return len(ids)


def _windows(tx: Transaction, name: str, length: timedelta) -> int:
    before = key_before(tx.now - max(2 * length, REMEMBERED))
    old = (
        select(job_counters.c.group_key, job_counters.c.period)
        .where(job_counters.c.name == name, job_counters.c.period.not_in(NO_WINDOW), job_counters.c.period < before)
        .limit(CHUNK)
    )
    rows: Any = tx.execute("old_windows", old).all()
    for row in rows:
        tx.execute(
            "forget_window",
            delete(job_counters).where(
                job_counters.c.name == name,
                job_counters.c.group_key == row.group_key,
                job_counters.c.period == row.period,
            ),
        )
    return len(rows)
