"""Limits: what was had and what is held; devices; an index that tells jobs by what they use.

Frozen: later changes are later migrations."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from sqljobs.schema.columns import Id, Json, Micros, Name, UtcTime

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None

READY = ("state", "group_key", "type", "uses_key", "priority", "created_at", "id", "weight")
BEGUN = ("state", "group_key", "type")
CHARGES = {"job_charges_limit": ["name", "group_key", "counted_at"], "job_charges_job": ["job_id", "attempt"]}
COLUMNS: dict[str, list[tuple[str, Any, Any]]] = {
    "jobs": [("uses_key", Name(16), sa.text("''"))],
    "job_attempts": [("devices", Json(), None)],
    "job_supervisors": [("type_uses", Json(), None), ("only_groups", Json(), None)],
}


def upgrade() -> None:
    """Make what is not there: on MySQL and MariaDB a run that is killed leaves behind what it has made."""
    context = op.get_context()
    schema = context.version_table_schema
    inspector = None if context.as_sql else sa.inspect(op.get_bind())
    for table, columns in COLUMNS.items():
        known = set() if inspector is None else {found["name"] for found in inspector.get_columns(table, schema=schema)}
        for name, kind, default in columns:
            if name not in known:
                column = sa.Column(name, kind, nullable=default is None, server_default=default)
                op.add_column(table, column, schema=schema)
    tables = set() if inspector is None else set(inspector.get_table_names(schema=schema))
    if "job_counters" not in tables:
        _counters(schema)
    if "job_charges" not in tables:
        _charges(schema)
    made: Any = () if inspector is None or "job_charges" not in tables else _indexes(inspector, "job_charges", schema)
    for index, parts in CHARGES.items():
        if index not in made:
            op.create_index(index, "job_charges", parts, schema=schema)
    if context.dialect.name == "sqlite":  # which keeps amounts as whole millionths; no version has written any yet
        op.drop_table("job_limits")
        _limits()
    found = {} if inspector is None else _indexes(inspector, "jobs", schema)
    if context.dialect.name in ("sqlite", "postgresql") and "jobs_begun" not in found:
        begun = sa.text("state = 'waiting'")
        op.create_index("jobs_begun", "jobs", BEGUN, schema=schema, postgresql_where=begun, sqlite_where=begun)
    if found.get("jobs_ready") == READY:
        return
    if "jobs_ready" in found or inspector is None:
        op.drop_index("jobs_ready", "jobs", schema=schema)
    where = sa.text("state = 'ready'")
    op.create_index("jobs_ready", "jobs", READY, schema=schema, postgresql_where=where, sqlite_where=where)


def _indexes(inspector: Any, table: str, schema: str | None) -> dict[str, tuple[str, ...]]:
    return {one["name"]: tuple(one["column_names"]) for one in inspector.get_indexes(table, schema=schema)}


def _counters(schema: str | None) -> None:
    op.create_table(
        "job_counters",
        sa.Column("name", Name(), nullable=False),
        sa.Column("group_key", Name(), nullable=False),
        sa.Column("period", Name(20), nullable=False),
        sa.Column("used", Micros(), nullable=False),
        sa.PrimaryKeyConstraint("name", "group_key", "period"),
        schema=schema,
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
    )


def _charges(schema: str | None) -> None:
    op.create_table(
        "job_charges",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("name", Name(), nullable=False),
        sa.Column("group_key", Name(), nullable=False),
        sa.Column("job_id", Id, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", Name(12), nullable=False),
        sa.Column("period", Name(20), nullable=False),
        sa.Column("counted_at", UtcTime(), nullable=False),
        sa.Column("amount", Micros(), nullable=False),
        sa.Column("estimate", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.CheckConstraint("kind IN ('resource','rate','budget')", name="job_charges_kind"),
        schema=schema,
        sqlite_autoincrement=True,
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
        postgresql_with={"autovacuum_vacuum_scale_factor": "0.02", "autovacuum_vacuum_threshold": "1000"},
    )


def _limits() -> None:
    op.create_table(
        "job_limits",
        sa.Column("name", Name(), nullable=False),
        sa.Column("group_key", Name(), nullable=False),
        sa.Column("kind", Name(12), nullable=False),
        sa.Column("amount", Micros(), nullable=False),
        sa.Column("per", Name(20), nullable=True),
        sa.Column("each_group", sa.Boolean(), nullable=False),
        sa.CheckConstraint("kind IN ('resource','rate','budget')", name="job_limits_kind"),
        sa.PrimaryKeyConstraint("name", "group_key"),
    )


def downgrade() -> None:
    """Migrations only go forward."""
    raise NotImplementedError("there is no way back to version 0003 but a backup")
