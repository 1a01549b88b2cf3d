"""What our ORM models share: the metadata that holds our tables alone, and indexes that mean the same everywhere."""

from __future__ import annotations

from sqlalchemy import Index, MetaData, Table, text
from sqlalchemy.orm import DeclarativeBase

VERSION_TABLE = "job_schema_version"
INNODB = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}


class Model(DeclarativeBase):
    """Root of our models; its metadata holds our tables and nothing else."""

    metadata = MetaData()


def partial_index(name: str, *columns: str, where: str, sqlite_where: str | None = None) -> Index:
    """An index of the rows that meet `where`; MySQL and MariaDB, which have no partial ones, index all rows.

    The tested column leads, so that both forms serve the same query."""
    return Index(name, *columns, postgresql_where=text(where), sqlite_where=text(sqlite_where or where))


def table_of(model: type[Model]) -> Table:
    """The model's table, typed as one."""
    table = model.__table__
    assert isinstance(table, Table)
    return table
