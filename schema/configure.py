"""The schema (PostgreSQL) or database (MySQL) that holds our tables; one per process, chosen before first use."""

from __future__ import annotations

import contextlib
import os

from sqljobs.schema.control_tables import SupervisorRow
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.limit_tables import Limit
from sqljobs.schema.model import VERSION_TABLE, Model
from sqljobs.schema.state_tables import Checkpoint
from sqljobs.schema.tables import Job
from sqljobs.schema.values import check_name

# All modules of tables are imported above, so that the metadata is complete.
_MODULES = {Job.__tablename__, SupervisorRow.__tablename__, Limit.__tablename__, Checkpoint.__tablename__}
OUR_TABLES = frozenset({*_MODULES, *Model.metadata.tables, VERSION_TABLE})
SCHEMA_LENGTH = 63


def configure(*, schema: str | None) -> None:
    """Put all tables into `schema`; None means the connection's own.

    Sets it on the tables themselves: a translate map on a caller's connection would rewrite the caller's, too.
    Raises `InvalidJob` for a name that no database takes."""
    if schema is not None:
        check_name("schema", schema)
        if len(schema) > SCHEMA_LENGTH:
            raise InvalidJob(f"schema: at most {SCHEMA_LENGTH} characters, these are {len(schema)}")
    Model.metadata.schema = schema
    for table in Model.metadata.tables.values():
        table.schema = schema
        table.fullname = f"{schema}.{table.name}" if schema else table.name


def configured_schema() -> str | None:
    """The schema in force, or None."""
    return Model.metadata.schema


def alembic_include_name(name: str | None, type_: str, parent_names: object) -> bool:
    """For `include_name=` in a user's Alembic env.py: False for our tables, so that autogenerate leaves them alone."""
    del parent_names
    return not (type_ == "table" and name is not None and (name in OUR_TABLES or name.startswith("job_")))


def _configure_from_environment() -> None:
    """SQLJOBS_SCHEMA holds for Python code as it does for the command line: else one would write where the other does
    not look. One that no database takes is refused where it is used."""
    with contextlib.suppress(InvalidJob):
        configure(schema=os.environ.get("SQLJOBS_SCHEMA") or None)


_configure_from_environment()
