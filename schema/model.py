"""What our ORM models share: the metadata that holds our tables alone, and indexes that mean the same everywhere."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Index, MetaData, Table, text
from sqlalchemy.orm import DeclarativeBase

VERSION_TABLE = "job_schema_version"
INNODB = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}


class Model(DeclarativeBase):
    """Root of our models; its metadata holds our tables and nothing else."""

    metadata = MetaData()


def partial_index(
    name: str, *columns: str, where: str, sqlite_where: str | None = None, only_partial: bool = False
) -> Index:
    """An index of the rows that meet `where`; MySQL and MariaDB, which have no partial ones, index all rows, or, with
    `only_partial`, have none.

    The tested column leads, so that both forms serve the same query."""
    index = Index(name, *columns, postgresql_where=text(where), sqlite_where=text(sqlite_where or where))
    return index.ddl_if(callable_=_knows_partial) if only_partial else index


def _knows_partial(*_args: Any, dialect: Any, **_more: Any) -> bool:
    return str(dialect.name) in ("sqlite", "postgresql")


def table_of(model: type[Model]) -> Table:
    """The model's table, typed as one."""
    table = model.__table__
    assert isinstance(table, Table)
    return table
