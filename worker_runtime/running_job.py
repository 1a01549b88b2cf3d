"""The one object through which a handler sees and steers its own job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sqljobs.schema.claim import Lease
from sqljobs.schema.errors import NoRunningJob
from sqljobs.schema.transactions import Database
from sqljobs.schema.upstream import Upstream, read_upstream


class RunningJob:
    """The job that this child process runs. The same object from any thread of the child."""

    def __init__(self, lease: Lease, database: Database) -> None:
        self._lease = lease
        self._database = database

    @property
    def id(self) -> int:
        return self._lease.job_id

    @property
    def type(self) -> str:
        return self._lease.type

    @property
    def args(self) -> Any:
        """The arguments as they were stored: plain JSON values."""
        return self._lease.args

    @property
    def attempt(self) -> int:
        """The number of this try, from 1. It never falls, also over retries by an operator."""
        return self._lease.attempt

    @property
    def max_attempts(self) -> int:
        return self._lease.max_attempts

    @property
    def group(self) -> str:
        return self._lease.group

    @property
    def key(self) -> str | None:
        return self._lease.key

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt, different for every job: for effects outside the database."""
        return f"{self._lease.batch or 'job'}-{self._lease.job_id}"

    @property
    def stopping(self) -> str | None:
        """Why this attempt is asked to end, or None."""
        return None

    @property
    def devices(self) -> Mapping[str, tuple[str, ...]]:
        """Units of devices that this attempt has for itself."""
        return {}

    @cached_property
    def upstream(self) -> tuple[Upstream, ...]:
        """The jobs that this one waited for, as given. Read from the database at the first use.

        Raises `DatabaseUnavailable`."""
        return self._database.read("upstream", lambda tx: read_upstream(tx, self.id))


_current: RunningJob | None = None


def current_job() -> RunningJob:
    """The job that this process runs. Raises `NoRunningJob` outside of a job's child process."""
    if _current is None:
        raise NoRunningJob("no job runs in this process: current_job() works in handlers that a supervisor started")
    return _current


def set_current_job(job: RunningJob | None) -> None:
    """Make `job` the one that `current_job` returns. For the child, and for running a handler inline in a test."""
    global _current
    _current = job
