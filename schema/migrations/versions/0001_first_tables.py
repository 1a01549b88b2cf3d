"""The first version of the tables. Frozen: later changes are later migrations."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from sqljobs.schema.columns import Id, Json, LongText, Name, UtcTime

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Create what is not there yet: on MySQL and MariaDB a killed run leaves a part behind."""
    _jobs()
    _deps()
    _attempts()
    _supervisors()
    _usage()
    _groups()
    _limits()
    _holds()


def _jobs() -> None:
    _create_table(
        "jobs",
        sa.Column("id", Id, autoincrement=True, nullable=False),
        sa.Column("type", Name(), nullable=False),
        sa.Column("args", Json(), nullable=True),
        sa.Column("result", Json(), nullable=True),
        sa.Column("state", Name(12), nullable=False),
        sa.Column("reason", Name(40), nullable=True),
        sa.Column("reason_text", LongText(), nullable=True),
        sa.Column("reason_job_id", Id, nullable=True),
        sa.Column("parent_id", Id, nullable=True),
        sa.Column("container", sa.Boolean(), nullable=False),
        sa.Column("group_key", Name(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("key", Name(), nullable=True),
        sa.Column("key_for", Name(8), nullable=False),
        sa.Column("key_slot", Name(), nullable=True),
        sa.Column("lease_owner", Name(240), nullable=True),
        sa.Column("lease_expires", UtcTime(), nullable=True),
        sa.Column("in_flight", sa.Boolean(), nullable=False),
        sa.Column("heartbeat_at", UtcTime(), nullable=True),
        sa.Column("run_after", UtcTime(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("first_max_attempts", sa.Integer(), nullable=False),
        sa.Column("timeout", sa.Double(), nullable=False),
        sa.Column("memory", Id, nullable=True),
        sa.Column("uses", Json(), nullable=True),
        sa.Column("spent", Json(), nullable=True),
        sa.Column("on_failed", Name(), nullable=True),
        sa.Column("given", Json(), nullable=True),
        sa.Column("cancel_requested_at", UtcTime(), nullable=True),
        sa.Column("cancel_now", sa.Boolean(), nullable=False),
        sa.Column("unmet_deps", sa.Integer(), nullable=False),
        sa.Column("closed_gates", sa.Integer(), nullable=False),
        sa.Column("open_children", sa.Integer(), nullable=False),
        sa.Column("done_children", sa.Integer(), nullable=False),
        sa.Column("failed_children", sa.Integer(), nullable=False),
        sa.Column("cancelled_children", sa.Integer(), nullable=False),
        sa.Column("progress_done", sa.Double(), nullable=True),
        sa.Column("progress_total", sa.Double(), nullable=True),
        sa.Column("progress_note", LongText(), nullable=True),
        sa.Column("batch", Name(32), nullable=True),
        sa.Column("batch_no", sa.Integer(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("updated_at", UtcTime(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=True),
        sa.Column("ended_at", UtcTime(), nullable=True),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state IN ('done','failed','cancelled'))", name="jobs_ended"),
        sa.CheckConstraint("in_flight = (state IN ('leased','running'))", name="jobs_in_flight"),
        sa.CheckConstraint("result IS NULL OR container OR state IN ('done','waiting')", name="jobs_result"),
        sa.CheckConstraint(
            "state IN ('blocked','scheduled','ready','leased','running','waiting','done','failed','cancelled')",
            name="jobs_state",
        ),
        sa.CheckConstraint(
            "state NOT IN ('ready','leased','running') OR (unmet_deps = 0 AND closed_gates = 0 AND NOT container)",
            name="jobs_claimable",
        ),
        sa.CheckConstraint("attempt >= 0 AND attempt <= max_attempts", name="jobs_attempt"),
        sa.CheckConstraint("in_flight = (heartbeat_at IS NOT NULL)", name="jobs_heartbeat"),
        sa.CheckConstraint("in_flight = (lease_expires IS NOT NULL)", name="jobs_expires"),
        sa.CheckConstraint("in_flight = (lease_owner IS NOT NULL)", name="jobs_owner"),
        sa.CheckConstraint("unmet_deps >= 0 AND closed_gates >= 0 AND open_children >= 0", name="jobs_counters"),
        sa.CheckConstraint("weight >= 1 AND priority BETWEEN -1000 AND 1000", name="jobs_rank"),
        sa.PrimaryKeyConstraint("id"),
        mariadb_default_charset="utf8mb4",
        mariadb_engine="InnoDB",
        mysql_default_charset="utf8mb4",
        mysql_engine="InnoDB",
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_cost_delay": "0",
            "autovacuum_analyze_scale_factor": "0.02",
        },
        sqlite_autoincrement=True,
    )
    _create_index(
        "jobs_due",
        "jobs",
        ["state", "run_after"],
        unique=False,
        postgresql_where=sa.text("state = 'scheduled'"),
        sqlite_where=sa.text("state = 'scheduled'"),
    )
    _create_index(
        "jobs_in_flight",
        "jobs",
        ["in_flight", "lease_expires"],
        unique=False,
        postgresql_where=sa.text("in_flight"),
        sqlite_where=sa.text("in_flight = 1"),
    )
    _create_index("jobs_key", "jobs", ["type", "key_slot"], unique=True)
    _create_index(
        "jobs_lease",
        "jobs",
        ["lease_owner"],
        unique=False,
        postgresql_where=sa.text("in_flight"),
        sqlite_where=sa.text("in_flight = 1"),
    )
    _create_index("jobs_parent", "jobs", ["parent_id", "state"], unique=False)
    _create_index(
        "jobs_ready",
        "jobs",
        ["state", "group_key", "priority", "created_at", "id", "type", "weight"],
        unique=False,
        postgresql_where=sa.text("state = 'ready'"),
        sqlite_where=sa.text("state = 'ready'"),
    )


def _deps() -> None:
    _create_table(
        "job_deps",
        sa.Column("job_id", Id, autoincrement=False, nullable=False),
        sa.Column("depends_on_id", Id, autoincrement=False, nullable=False),
        sa.Column("kind", Name(8), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("satisfied", sa.Boolean(), nullable=False),
        sa.Column("checked", sa.Boolean(), nullable=False),
        sa.CheckConstraint("kind IN ('ok','any','not_ok')", name="job_deps_kind"),
        sa.CheckConstraint("job_id <> depends_on_id", name="job_deps_self"),
        sa.PrimaryKeyConstraint("job_id", "depends_on_id"),
        mariadb_engine="InnoDB",
        mysql_engine="InnoDB",
    )
    _create_index(
        "job_deps_unchecked",
        "job_deps",
        ["checked", "depends_on_id"],
        unique=False,
        postgresql_where=sa.text("NOT checked"),
        sqlite_where=sa.text("checked = 0"),
    )
    _create_index("job_deps_upstream", "job_deps", ["depends_on_id", "satisfied"], unique=False)


def _attempts() -> None:
    _create_table(
        "job_attempts",
        sa.Column("job_id", Id, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", Name(240), nullable=False),
        sa.Column("supervisor", Name(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("start_ticks", Id, nullable=True),
        sa.Column("claimed_at", UtcTime(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=True),
        sa.Column("ended_at", UtcTime(), nullable=True),
        sa.Column("cause", Name(12), nullable=True),
        sa.Column("error", LongText(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", Name(20), nullable=True),
        sa.Column("cpu_seconds", sa.Double(), nullable=True),
        sa.Column("max_rss_bytes", Id, nullable=True),
        sa.Column("stack_dump", LongText(), nullable=True),
        sa.Column("log_tail", LongText(), nullable=True),
        sa.Column("used", Json(), nullable=True),
        sa.Column("spent", Json(), nullable=True),
        sa.CheckConstraint("(cause IS NULL) = (ended_at IS NULL)", name="job_attempts_ended"),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
        mariadb_engine="InnoDB",
        mysql_engine="InnoDB",
    )


def _supervisors() -> None:
    _create_table(
        "job_supervisors",
        sa.Column("id", Name(32), nullable=False),
        sa.Column("name", Name(), nullable=False),
        sa.Column("name_slot", Name(), nullable=True),
        sa.Column("host", Name(), nullable=False),
        sa.Column("boot_id", Name(64), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("start_ticks", Id, nullable=False),
        sa.Column("state", Name(12), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("types", Json(), nullable=False),
        sa.Column("devices", Json(), nullable=True),
        sa.Column("wakeup", Name(8), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("heartbeat_at", UtcTime(), nullable=False),
        sa.Column("ttl", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name_slot"),
        mariadb_engine="InnoDB",
        mysql_engine="InnoDB",
    )


def _usage() -> None:
    _create_table(
        "job_usage",
        sa.Column("supervisor_id", Name(32), nullable=False),
        sa.Column("group_key", Name(), nullable=False),
        sa.Column("slot_seconds", sa.Double(), nullable=False),
        sa.Column("starts", sa.Double(), nullable=False),
        sa.Column("as_of", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("supervisor_id", "group_key"),
        mariadb_engine="InnoDB",
        mysql_engine="InnoDB",
    )


def _groups() -> None:
    _create_table(
        "job_groups",
        sa.Column("group_key", Name(), nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("group_key"),
        mariadb_engine="InnoDB",
        mysql_engine="InnoDB",
    )


def _limits() -> None:
    _create_table(
        "job_limits",
        sa.Column("name", Name(), nullable=False),
        sa.Column("group_key", Name(), nullable=False),
        sa.Column("kind", Name(12), nullable=False),
        sa.Column("amount", sa.Numeric(precision=24, scale=6), nullable=False),
        sa.Column("per", Name(20), nullable=True),
        sa.Column("each_group", sa.Boolean(), nullable=False),
        sa.CheckConstraint("kind IN ('resource','rate','budget')", name="job_limits_kind"),
        sa.PrimaryKeyConstraint("name", "group_key"),
        mariadb_engine="InnoDB",
        mysql_engine="InnoDB",
    )


def _holds() -> None:
    _create_table(
        "job_holds",
        sa.Column("kind", Name(12), nullable=False),
        sa.Column("name", Name(), nullable=False),
        sa.Column("reason", LongText(), nullable=True),
        sa.Column("since", UtcTime(), nullable=False),
        sa.Column("until", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("kind", "name"),
        mariadb_engine="InnoDB",
        mysql_engine="InnoDB",
    )


def downgrade() -> None:
    """Jobs are never thrown away by a migration."""
    raise NotImplementedError("the first version has nothing before it")


def _create_table(name: str, *columns: sa.schema.SchemaItem, **options: Any) -> None:
    op.create_table(name, *columns, schema=_schema(), if_not_exists=True, **options)


def _create_index(name: str, table: str, columns: list[str], **options: Any) -> None:
    context = op.get_context()
    if not context.as_sql:
        existing = sa.inspect(op.get_bind()).get_indexes(table, schema=_schema())
        if name in {index["name"] for index in existing}:
            return
    op.create_index(name, table, columns, schema=_schema(), **options)


def _schema() -> str | None:
    return op.get_context().version_table_schema
