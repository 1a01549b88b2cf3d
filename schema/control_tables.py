"""The tables of supervisors and of what operators set: groups and holds. No logic."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Double, Integer
from sqlalchemy.orm import Mapped, mapped_column

from sqljobs.schema.columns import AmountsByType, Id, Json, LongText, Name, UtcTime
from sqljobs.schema.model import INNODB, Model, table_of


class SupervisorRow(Model):
    """One start of a supervisor; `name_slot` is its name while it lives."""

    __tablename__ = "job_supervisors"

    id: Mapped[str] = mapped_column(Name(32), primary_key=True)
    name: Mapped[str] = mapped_column(Name())
    name_slot: Mapped[str | None] = mapped_column(Name(), unique=True)
    host: Mapped[str] = mapped_column(Name())
    boot_id: Mapped[str] = mapped_column(Name(64))
    pid: Mapped[int] = mapped_column(Integer)
    start_ticks: Mapped[int] = mapped_column(Id)
    state: Mapped[str] = mapped_column(Name(12))
    slots: Mapped[int] = mapped_column(Integer)
    types: Mapped[Any] = mapped_column(Json)
    devices: Mapped[Any] = mapped_column(Json, nullable=True)
    # What its handlers' jobs use where they were given nothing of their own: amounts by limit or device, by type.
    type_uses: Mapped[Any] = mapped_column(AmountsByType, nullable=True)
    # The only groups that it claims from; NULL: any.
    only_groups: Mapped[Any] = mapped_column(Json, nullable=True)
    wakeup: Mapped[str] = mapped_column(Name(8))
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    heartbeat_at: Mapped[datetime] = mapped_column(UtcTime)
    ttl: Mapped[float] = mapped_column(Double)
    # An operator's wish, read at each heartbeat: claim nothing more, let children end, leave.
    drain_requested_at: Mapped[datetime | None] = mapped_column(UtcTime)
    # Seconds; NULL in rows of version 0001. Who takes over has to wait for two of them.
    heartbeat: Mapped[float | None] = mapped_column(Double)

    __table_args__ = (INNODB,)


class GroupUsage(Model):
    """Slot time that one supervisor gave to one group, decayed as of `as_of`; only that supervisor writes it."""

    __tablename__ = "job_usage"

    supervisor_id: Mapped[str] = mapped_column(Name(32), primary_key=True)
    group_key: Mapped[str] = mapped_column(Name(), primary_key=True)
    slot_seconds: Mapped[float] = mapped_column(Double)
    starts: Mapped[float] = mapped_column(Double)
    as_of: Mapped[datetime] = mapped_column(UtcTime)

    __table_args__ = (INNODB,)


class Group(Model):
    """A group's own weight, set by an operator."""

    __tablename__ = "job_groups"

    group_key: Mapped[str] = mapped_column(Name(), primary_key=True)
    weight: Mapped[int] = mapped_column(Integer)

    __table_args__ = (INNODB,)


class Hold(Model):
    """A hold on a job, type, group, limit, supervisor, or on all (name '')."""

    __tablename__ = "job_holds"

    kind: Mapped[str] = mapped_column(Name(12), primary_key=True)
    name: Mapped[str] = mapped_column(Name(), primary_key=True, default="")
    reason: Mapped[str | None] = mapped_column(LongText)
    since: Mapped[datetime] = mapped_column(UtcTime)
    until: Mapped[datetime | None] = mapped_column(UtcTime)

    __table_args__ = (INNODB,)


job_supervisors = table_of(SupervisorRow)
job_usage = table_of(GroupUsage)
job_groups = table_of(Group)
job_holds = table_of(Hold)
