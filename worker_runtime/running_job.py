"""The one object through which a handler sees and steers its own job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sqljobs.schema.claim import Lease
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.finalize import Spawned
from sqljobs.schema.specs import JobSpec, check_request
from sqljobs.schema.transactions import Database
from sqljobs.schema.upstream import Upstream, read_upstream
from sqljobs.worker_runtime.enqueue import check_args, spec_of
from sqljobs.worker_runtime.registry import defaults_of

MOST_SPAWNED = 100_000


class RunningJob:
    """The job that this child process runs. The same object from any thread of the child."""

    def __init__(self, lease: Lease, database: Database) -> None:
        self._lease = lease
        self._database = database
        self._children: list[JobSpec] = []
        self._followers: list[JobSpec] = []

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
    def parent(self) -> int | None:
        """The container that this job is in: `job.enqueue(..., parent=job.parent)` puts another one beside it."""
        return self._lease.parent

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
        return self._database.read("upstream", lambda tx: read_upstream(tx, self.id, self._database))

    def spawn(self, job: str | JobSpec, args: Mapping[str, Any] | None = None, /, **options: Any) -> JobSpec:
        """Add a member to this job: it is written if, and only if, this attempt ends `done`, with that end.

        From then on the job waits for its members, and ends as they do. A member inherits group, weight and priority
        unless given. Returns the spec, for others to name it in `after`. Raises `InvalidJob` for what cannot be
        enqueued; what only the database can refuse makes the attempt end as `error`, with nothing written."""
        spec = spec_of(job, args, options)
        if spec.given.get("parent") not in (None, self.id):
            raise InvalidJob("spawn makes members of this very job: leave parent out, or call job.enqueue")
        self._check(spec)
        self._children.append(spec)
        return spec

    def enqueue(self, job: str | JobSpec, args: Mapping[str, Any] | None = None, /, **options: Any) -> JobSpec:
        """Enqueue a job that is no member of this one, such as a follower with `after=[job.id]`: written if, and only
        if, this attempt ends `done`, with that end. Inherits, returns and raises as `spawn`."""
        spec = spec_of(job, args, options)
        self._check(spec)
        (self._children if spec.given.get("parent") == self.id else self._followers).append(spec)
        return spec

    def _check(self, spec: JobSpec) -> None:
        check_request(spec, defaults_of, check_args)
        if len(self._children) + len(self._followers) >= MOST_SPAWNED:
            raise InvalidJob(f"one attempt may enqueue {MOST_SPAWNED:,} jobs: let a member enqueue the others")

    @property
    def spawned(self) -> Spawned:
        """What is to be written with the end."""
        return Spawned(tuple(self._children), tuple(self._followers), defaults_of, check_args)
