"""What a job keeps over its attempts: its checkpoint and the results of its steps; and why an attempt was stopped.

Frozen: later changes are later migrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sqljobs.schema.columns import Id, Json, Name, UtcTime

revision = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Make what is not there: on MySQL and MariaDB a run that is killed leaves behind what it has made."""
    context = op.get_context()
    schema = context.version_table_schema
    tables = set() if context.as_sql else set(sa.inspect(op.get_bind()).get_table_names(schema=schema))
    if "job_checkpoints" not in tables:
        op.create_table(
            "job_checkpoints",
            sa.Column("job_id", Id, autoincrement=False, nullable=False),
            sa.Column("attempt", sa.Integer(), nullable=False),
            sa.Column("data", Json(), nullable=True),
            sa.Column("written_at", UtcTime(), nullable=False),
            sa.PrimaryKeyConstraint("job_id"),
            schema=schema,
            mysql_engine="InnoDB",
            mariadb_engine="InnoDB",
        )
    if "job_steps" not in tables:
        op.create_table(
            "job_steps",
            sa.Column("job_id", Id, autoincrement=False, nullable=False),
            sa.Column("name", Name(), nullable=False),
            sa.Column("attempt", sa.Integer(), nullable=False),
            sa.Column("value", Json(), nullable=True),
            sa.Column("written_at", UtcTime(), nullable=False),
            sa.PrimaryKeyConstraint("job_id", "name"),
            schema=schema,
            mysql_engine="InnoDB",
            mariadb_engine="InnoDB",
        )


def downgrade() -> None:
    """Migrations only go forward."""
    raise NotImplementedError("there is no way back to version 0004 but a backup")
