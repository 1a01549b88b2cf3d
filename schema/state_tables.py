"""The tables of what a job keeps over its attempts. No logic."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Integer
from sqlalchemy.orm import Mapped, mapped_column

from sqljobs.schema.columns import Id, Json, Name, UtcTime
from sqljobs.schema.model import INNODB, Model, table_of


class Checkpoint(Model):
    """What a handler last said of how far it has come; `attempt` is the one that said it."""

    __tablename__ = "job_checkpoints"

    job_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(Integer)
    data: Mapped[Any] = mapped_column(Json, nullable=True)
    written_at: Mapped[datetime] = mapped_column(UtcTime)

    __table_args__ = (INNODB,)


class Memo(Model):
    """The result of one step of a job, which is not run again."""

    __tablename__ = "job_steps"

    job_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(Name(), primary_key=True)
    attempt: Mapped[int] = mapped_column(Integer)
    value: Mapped[Any] = mapped_column(Json, nullable=True)
    written_at: Mapped[datetime] = mapped_column(UtcTime)

    __table_args__ = (INNODB,)


job_checkpoints = table_of(Checkpoint)
job_steps = table_of(Memo)
