"""Which job this process runs: one, from the fork to the end, and in all of its threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqljobs.schema.errors import NoRunningJob

if TYPE_CHECKING:
    from sqljobs.worker_runtime.running_job import RunningJob

_current: RunningJob | None = None


def current_job() -> RunningJob:
    """The job that this process runs. Raises `NoRunningJob` outside of a job's child process."""
    if _current is None:
        raise NoRunningJob("no job runs in this process: current_job() works in handlers that a supervisor started")
    return _current


def set_current_job(job: RunningJob | None) -> RunningJob | None:
    """Make `job` the one that `current_job` returns; returns the one before. For the child, and for running a handler
    inline in a test."""
    global _current
    former, _current = _current, job
    return former


def running_job_id() -> int | None:
    """The id of the job that this process runs, or None."""
    return None if _current is None else _current.id
