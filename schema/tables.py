"""The tables of jobs, their edges and attempts. No logic; the migrations are what creates them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, CheckConstraint, Double, Index, Integer, text
from sqlalchemy.orm import Mapped, mapped_column

from sqljobs.schema.columns import OWNER_LENGTH, Amounts, Id, Json, LongText, Name, UtcTime
from sqljobs.schema.model import INNODB, Model, partial_index, table_of


class Job(Model):
    """One job. The columns are public for queries; only sqljobs writes them."""

    __tablename__ = "jobs"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    type: Mapped[str] = mapped_column(Name())
    args: Mapped[Any] = mapped_column(Json, nullable=True)
    result: Mapped[Any] = mapped_column(Json, nullable=True)
    state: Mapped[str] = mapped_column(Name(12))
    reason: Mapped[str | None] = mapped_column(Name(40))
    reason_text: Mapped[str | None] = mapped_column(LongText)
    reason_job_id: Mapped[int | None] = mapped_column(Id)
    parent_id: Mapped[int | None] = mapped_column(Id)
    container: Mapped[bool] = mapped_column(Boolean, default=False)
    group_key: Mapped[str] = mapped_column(Name())
    weight: Mapped[int] = mapped_column(Integer)
    priority: Mapped[int] = mapped_column(Integer)
    key: Mapped[str | None] = mapped_column(Name())
    key_for: Mapped[str] = mapped_column(Name(8), default="open")
    # The key while it is taken, else NULL: a unique index that works where partial ones do not exist.
    key_slot: Mapped[str | None] = mapped_column(Name())
    lease_owner: Mapped[str | None] = mapped_column(Name(OWNER_LENGTH))
    lease_expires: Mapped[datetime | None] = mapped_column(UtcTime)
    in_flight: Mapped[bool] = mapped_column(Boolean, default=False)
    heartbeat_at: Mapped[datetime | None] = mapped_column(UtcTime)
    run_after: Mapped[datetime | None] = mapped_column(UtcTime)
    attempt: Mapped[int] = mapped_column(Integer, default=0)
    max_attempts: Mapped[int] = mapped_column(Integer)
    # The number first given: what a retry grants again, and what is left of max_attempts without refunds.
    first_max_attempts: Mapped[int] = mapped_column(Integer)
    timeout: Mapped[float] = mapped_column(Double)
    memory: Mapped[int | None] = mapped_column(Id)
    uses: Mapped[Any] = mapped_column(Amounts, nullable=True)
    # What the amounts of `uses` come down to in an index: '' where the job was given none of its own.
    uses_key: Mapped[str] = mapped_column(Name(16), default="", server_default=text("''"))
    spent: Mapped[Any] = mapped_column(Amounts, nullable=True)
    on_failed: Mapped[str | None] = mapped_column(Name())
    # Names of the options that the job itself was given; all others follow the handler at each claim.
    given: Mapped[Any] = mapped_column(Json, nullable=True)
    cancel_requested_at: Mapped[datetime | None] = mapped_column(UtcTime)
    cancel_now: Mapped[bool] = mapped_column(Boolean, default=False)
    unmet_deps: Mapped[int] = mapped_column(Integer, default=0)
    # 1 while the container that it is in is blocked, by dependencies of its own or by the container around it.
    closed_gates: Mapped[int] = mapped_column(Integer, default=0)
    open_children: Mapped[int] = mapped_column(Integer, default=0)
    done_children: Mapped[int] = mapped_column(Integer, default=0)
    failed_children: Mapped[int] = mapped_column(Integer, default=0)
    cancelled_children: Mapped[int] = mapped_column(Integer, default=0)
    not_needed_children: Mapped[int] = mapped_column(Integer, default=0, server_default=text("0"))
    # A container that does not end before it has had a member.
    awaits_child: Mapped[bool] = mapped_column(Boolean, default=False, server_default=text("'0'"))
    progress_done: Mapped[float | None] = mapped_column(Double)
    progress_total: Mapped[float | None] = mapped_column(Double)
    progress_note: Mapped[str | None] = mapped_column(LongText)
    # Which call of enqueue wrote the row: finds the ids where INSERT has no RETURNING, and settles a lost COMMIT.
    batch: Mapped[str | None] = mapped_column(Name(32))
    batch_no: Mapped[int | None] = mapped_column(Integer)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)

    __table_args__ = (
        CheckConstraint(
            "state IN ('blocked','scheduled','ready','leased','running','waiting','done','failed','cancelled')",
            name="jobs_state",
        ),
        CheckConstraint("in_flight = (state IN ('leased','running'))", name="jobs_in_flight"),
        CheckConstraint("in_flight = (lease_owner IS NOT NULL)", name="jobs_owner"),
        CheckConstraint("in_flight = (lease_expires IS NOT NULL)", name="jobs_expires"),
        CheckConstraint("in_flight = (heartbeat_at IS NOT NULL)", name="jobs_heartbeat"),
        CheckConstraint("(ended_at IS NOT NULL) = (state IN ('done','failed','cancelled'))", name="jobs_ended"),
        CheckConstraint("attempt >= 0 AND attempt <= max_attempts", name="jobs_attempt"),
        CheckConstraint("unmet_deps >= 0 AND closed_gates >= 0 AND open_children >= 0", name="jobs_counters"),
        CheckConstraint(
            "state NOT IN ('ready','leased','running') OR (unmet_deps = 0 AND closed_gates = 0 AND NOT container)",
            name="jobs_claimable",
        ),
        CheckConstraint("result IS NULL OR container OR state IN ('done','waiting')", name="jobs_result"),
        CheckConstraint("weight >= 1 AND priority BETWEEN -1000 AND 1000", name="jobs_rank"),
        Index("jobs_key", "type", "key_slot", unique=True),
        Index("jobs_parent", "parent_id", "state"),
        partial_index(
            "jobs_ready",
            *("state", "group_key", "type", "uses_key", "priority", "created_at", "id", "weight"),
            where="state = 'ready'",
        ),
        # Containers that have begun; MySQL and MariaDB find them by the index of all states.
        partial_index("jobs_begun", "state", "group_key", "type", where="state = 'waiting'", only_partial=True),
        partial_index("jobs_due", "state", "run_after", where="state = 'scheduled'"),
        partial_index("jobs_in_flight", "in_flight", "lease_expires", where="in_flight", sqlite_where="in_flight = 1"),
        partial_index("jobs_lease", "lease_owner", where="in_flight", sqlite_where="in_flight = 1"),
        {
            "sqlite_autoincrement": True,
            "mysql_engine": "InnoDB",
            "mariadb_engine": "InnoDB",
            "mysql_default_charset": "utf8mb4",
            "mariadb_default_charset": "utf8mb4",
            "postgresql_with": {
                "fillfactor": "70",
                "autovacuum_vacuum_scale_factor": "0.02",
                "autovacuum_vacuum_threshold": "1000",
                "autovacuum_vacuum_cost_delay": "0",
                "autovacuum_analyze_scale_factor": "0.02",
            },
        },
    )


class JobDep(Model):
    """One edge: `job_id` waits for `depends_on_id`."""

    __tablename__ = "job_deps"

    job_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    depends_on_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(Name(8))
    position: Mapped[int] = mapped_column(Integer)
    satisfied: Mapped[bool] = mapped_column(Boolean)
    # False while the upstream's end might have been written without seeing this edge: a supervisor looks once.
    checked: Mapped[bool] = mapped_column(Boolean)

    __table_args__ = (
        CheckConstraint("kind IN ('ok','any','not_ok')", name="job_deps_kind"),
        CheckConstraint("job_id <> depends_on_id", name="job_deps_self"),
        Index("job_deps_upstream", "depends_on_id", "satisfied"),
        partial_index(
            *("job_deps_unchecked", "checked", "depends_on_id"),
            where="NOT checked",
            sqlite_where="checked = 0",
        ),
        INNODB,
    )


class Intent(Model):
    """What a transaction has left for supervisors: the rest of a big job's neighbours, or a row that was taken.

    `edges`: settle what waits for `job_id`, which has ended, beyond the dependent `after_id`. `members`: bring the
    members of the container `job_id` in line with it; with an `after_id`, that one was written without the container's
    row, and all are counted anew. `child`: count `job_id`, which has ended, in its parent. `recheck`: have all that
    waits for `job_id`, which was opened again, looked at once more."""

    __tablename__ = "job_intents"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=True)
    kind: Mapped[str] = mapped_column(Name(8))
    job_id: Mapped[int] = mapped_column(Id)
    after_id: Mapped[int] = mapped_column(Id, default=0)

    __table_args__ = (
        CheckConstraint("kind IN ('edges','members','child','recheck')", name="job_intents_kind"),
        Index("job_intents_job", "job_id", "kind"),
        {
            "sqlite_autoincrement": True,
            **INNODB,
            "postgresql_with": {"autovacuum_vacuum_scale_factor": "0.02", "autovacuum_vacuum_threshold": "1000"},
        },
    )


class Attempt(Model):
    """One try of one job, numbered at the claim; `cause` is set once."""

    __tablename__ = "job_attempts"

    job_id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    owner: Mapped[str] = mapped_column(Name(OWNER_LENGTH))
    supervisor: Mapped[str] = mapped_column(Name())
    pid: Mapped[int | None] = mapped_column(Integer)
    start_ticks: Mapped[int | None] = mapped_column(Id)
    claimed_at: Mapped[datetime] = mapped_column(UtcTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
    cause: Mapped[str | None] = mapped_column(Name(12))
    error: Mapped[str | None] = mapped_column(LongText)
    exit_code: Mapped[int | None] = mapped_column(Integer)
    signal: Mapped[str | None] = mapped_column(Name(20))
    cpu_seconds: Mapped[float | None] = mapped_column(Double)
    max_rss_bytes: Mapped[int | None] = mapped_column(Id)
    stack_dump: Mapped[str | None] = mapped_column(LongText)
    log_tail: Mapped[str | None] = mapped_column(LongText)
    used: Mapped[Any] = mapped_column(Amounts, nullable=True)
    spent: Mapped[Any] = mapped_column(Amounts, nullable=True)
    # Units of devices by name, as its supervisor gave them.
    devices: Mapped[Any] = mapped_column(Json, nullable=True)

    __table_args__ = (
        CheckConstraint("(cause IS NULL) = (ended_at IS NULL)", name="job_attempts_ended"),
        INNODB,
    )


jobs = table_of(Job)
job_deps = table_of(JobDep)
job_attempts = table_of(Attempt)
job_intents = table_of(Intent)
# The columns of graph.Children, in its order.
COUNTERS = (
    *(jobs.c.open_children, jobs.c.done_children, jobs.c.failed_children, jobs.c.cancelled_children),
    jobs.c.not_needed_children,
)
