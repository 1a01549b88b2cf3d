"""sqljobs: a durable, explainable job queue in the relational database you already have."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sqljobs.schema.configure import alembic_include_name, configure
from sqljobs.schema.engine import create_engine
from sqljobs.schema.errors import (
    BadHandlers,
    Conflict,
    CycleError,
    DatabaseUnavailable,
    DuplicateKey,
    Error,
    InvalidJob,
    LimitTimeout,
    NoRunningJob,
    NotInitialised,
    Refused,
    SchemaOutdated,
    UnknownJob,
    WaitTimeout,
)
from sqljobs.schema.job_info import JobInfo, StateReason
from sqljobs.schema.outcomes import Backoff, exponential
from sqljobs.schema.reason import Reason
from sqljobs.schema.specs import JobSpec
from sqljobs.schema.tables import Job, JobDep
from sqljobs.schema.upstream import Upstream
from sqljobs.worker_runtime.child_hooks import on_child_end, on_child_start
from sqljobs.worker_runtime.controls import hold, release, set_group, set_limit
from sqljobs.worker_runtime.current_job import current_job
from sqljobs.worker_runtime.endings import Cancel, Fail, Retry, Snooze
from sqljobs.worker_runtime.enqueue import cancel, enqueue, enqueue_many, explain, get_job, retry, skip
from sqljobs.worker_runtime.registry import handler
from sqljobs.worker_runtime.running_job import RunningJob
from sqljobs.worker_runtime.stopping import Stopping
from sqljobs.worker_runtime.wait import wait

if TYPE_CHECKING:
    from sqljobs import aio as aio
    from sqljobs import testing as testing
    from sqljobs.schema.doctor import Finding, doctor
    from sqljobs.supervisor.supervise import Supervisor

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "BadHandlers",
    "Cancel",
    "Conflict",
    "CycleError",
    "DatabaseUnavailable",
    "DuplicateKey",
    "Error",
    "Fail",
    "Finding",
    "InvalidJob",
    "Job",
    "JobDep",
    "JobInfo",
    "JobSpec",
    "LimitTimeout",
    "NoRunningJob",
    "NotInitialised",
    "Reason",
    "Refused",
    "Retry",
    "RunningJob",
    "SchemaOutdated",
    "Snooze",
    "StateReason",
    "Stopping",
    "Supervisor",
    "UnknownJob",
    "Upstream",
    "WaitTimeout",
    "aio",
    "alembic_include_name",
    "cancel",
    "configure",
    "create_engine",
    "current_job",
    "doctor",
    "enqueue",
    "enqueue_many",
    "explain",
    "exponential",
    "get_job",
    "handler",
    "hold",
    "on_child_end",
    "on_child_start",
    "release",
    "retry",
    "set_group",
    "set_limit",
    "skip",
    "testing",
    "wait",
]


def __getattr__(name: str) -> Any:
    # The supervisor needs Linux; a process that only enqueues runs anywhere and need not load it.
    if name == "Supervisor":
        from sqljobs.supervisor.supervise import Supervisor

        return Supervisor
    if name in ("doctor", "Finding"):  # seldom needed
        return getattr(importlib.import_module("sqljobs.schema.doctor"), name)
    if name == "aio":  # needs the extra `asyncio`
        return importlib.import_module("sqljobs.aio")
    if name == "testing":  # in production nobody needs it
        return importlib.import_module("sqljobs.testing")
    raise AttributeError(f"module 'sqljobs' has no attribute {name!r}")
