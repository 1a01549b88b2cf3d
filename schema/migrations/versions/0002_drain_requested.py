"""A supervisor's row takes the request of `sqljobs drain`, and says how often it renews.

Frozen: later changes are later migrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sqljobs.schema.columns import UtcTime

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

TABLE = "job_supervisors"
COLUMNS = {"drain_requested_at": UtcTime, "heartbeat": sa.Double}


def upgrade() -> None:
    """Add the columns that are not there: on MySQL and MariaDB a run that is killed leaves behind what it has added."""
    context = op.get_context()
    schema = context.version_table_schema
    existing: set[str] = set()
    if not context.as_sql:
        existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(TABLE, schema=schema)}
    for name, kind in COLUMNS.items():
        if name not in existing:
            op.add_column(TABLE, sa.Column(name, kind(), nullable=True), schema=schema)


def downgrade() -> None:
    """Migrations only go forward."""
    raise NotImplementedError("there is no way back to version 0001 but a backup")
