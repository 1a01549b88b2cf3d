"""`sqljobs drain` leaves its request in the supervisor's row. Frozen: later changes are later migrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sqljobs.schema.columns import UtcTime

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

TABLE, COLUMN = "job_supervisors", "drain_requested_at"


def upgrade() -> None:
    """Add the column unless it is there: on MySQL and MariaDB a run that is killed afterwards leaves it behind."""
    context = op.get_context()
    schema = context.version_table_schema
    if not context.as_sql:
        existing = sa.inspect(op.get_bind()).get_columns(TABLE, schema=schema)
        if COLUMN in {column["name"] for column in existing}:
            return
    op.add_column(TABLE, sa.Column(COLUMN, UtcTime(), nullable=True), schema=schema)


def downgrade() -> None:
    """Migrations only go forward."""
    raise NotImplementedError("there is no way back to version 0001 but a backup")
