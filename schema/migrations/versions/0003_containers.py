"""Containers: two more columns that say when one ends, and a table of what supervisors are still to do.

Frozen: later changes are later migrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sqljobs.schema.columns import Id, Name

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Make what is not there: on MySQL and MariaDB a run that is killed leaves behind what it has made."""
    context = op.get_context()
    schema = context.version_table_schema
    columns: set[str] = set()
    tables: set[str] = set()
    if not context.as_sql:
        inspector = sa.inspect(op.get_bind())
        columns = {column["name"] for column in inspector.get_columns("jobs", schema=schema)}
        tables = set(inspector.get_table_names(schema=schema))
    for name, kind, default in (
        ("awaits_child", sa.Boolean(), sa.text("'0'")),
        ("not_needed_children", sa.Integer(), sa.text("0")),
    ):
        if name not in columns:
            op.add_column("jobs", sa.Column(name, kind, nullable=False, server_default=default), schema=schema)
    if "job_intents" not in tables:
        _intents(schema)


def _intents(schema: str | None) -> None:
    op.create_table(
        "job_intents",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("kind", Name(8), nullable=False),
        sa.Column("job_id", Id, nullable=False),
        sa.Column("after_id", Id, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.CheckConstraint("kind IN ('edges','members','child','recheck')", name="job_intents_kind"),
        sa.Index("job_intents_job", "job_id", "kind"),
        schema=schema,
        sqlite_autoincrement=True,
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
        postgresql_with={"autovacuum_vacuum_scale_factor": "0.02", "autovacuum_vacuum_threshold": "1000"},
    )


def downgrade() -> None:
    """Migrations only go forward."""
    raise NotImplementedError("there is no way back to version 0002 but a backup")
