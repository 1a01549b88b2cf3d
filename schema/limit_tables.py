"""The tables of limits: what may be had, what was had, and what attempts hold now. No logic."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, CheckConstraint, Index, Integer
from sqlalchemy.orm import Mapped, mapped_column

from sqljobs.schema.columns import Id, Micros, Name, UtcTime
from sqljobs.schema.model import INNODB, Model, table_of


class Limit(Model):
    """A named capacity; `group_key` is '' but for one group's own amount."""

    __tablename__ = "job_limits"

    name: Mapped[str] = mapped_column(Name(), primary_key=True)
    group_key: Mapped[str] = mapped_column(Name(), primary_key=True, default="")
    kind: Mapped[str] = mapped_column(Name(12))
    amount: Mapped[int] = mapped_column(Micros)
    # Seconds, or `day` or `month`; NULL: for ever.
    per: Mapped[str | None] = mapped_column(Name(20))
    each_group: Mapped[bool] = mapped_column(Boolean, default=False)

    __table_args__ = (
        CheckConstraint("kind IN ('resource','rate','budget')", name="job_limits_kind"),
        INNODB,
    )


class Counter(Model):
    """What was had of a budget in one window, `period`; that of `GATE` holds nothing and is the lock before admission.

    `group_key` is '' but where each group has a counter of its own."""

    __tablename__ = "job_counters"

    name: Mapped[str] = mapped_column(Name(), primary_key=True)
    group_key: Mapped[str] = mapped_column(Name(), primary_key=True)
    period: Mapped[str] = mapped_column(Name(20), primary_key=True)
    used: Mapped[int] = mapped_column(Micros)

    __table_args__ = (INNODB,)


class Charge(Model):
    """What one attempt has of one limit: a `resource` while it is in flight, a `rate` until its window is over.

    `estimate`: reserved by the claim, and used up by what the attempt then spends; kept for budgets, too, whose sum is
    in the counter."""

    __tablename__ = "job_charges"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(Name())
    group_key: Mapped[str] = mapped_column(Name())
    job_id: Mapped[int] = mapped_column(Id)
    attempt: Mapped[int] = mapped_column(Integer)
    kind: Mapped[str] = mapped_column(Name(12))
    period: Mapped[str] = mapped_column(Name(20))
    counted_at: Mapped[datetime] = mapped_column(UtcTime)
    amount: Mapped[int] = mapped_column(Micros)
    estimate: Mapped[bool] = mapped_column(Boolean)

    __table_args__ = (
        CheckConstraint("kind IN ('resource','rate','budget')", name="job_charges_kind"),
        Index("job_charges_limit", "name", "group_key", "counted_at"),
        Index("job_charges_job", "job_id", "attempt"),
        {
            "sqlite_autoincrement": True,
            **INNODB,
            "postgresql_with": {"autovacuum_vacuum_scale_factor": "0.02", "autovacuum_vacuum_threshold": "1000"},
        },
    )


GATE = ""

job_limits = table_of(Limit)
job_counters = table_of(Counter)
job_charges = table_of(Charge)
