"""The one object through which a handler sees and steers its own job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from sqlalchemy.orm import Session

from sqljobs.schema.claim import Lease
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.finalize import Spawned
from sqljobs.schema.job_info import Progress
from sqljobs.schema.specs import JobSpec, check_request
from sqljobs.schema.transactions import Database
from sqljobs.schema.upstream import Upstream, read_upstream
from sqljobs.worker_runtime.checkpoints import Checkpoints
from sqljobs.worker_runtime.enqueue import check_args, spec_of
from sqljobs.worker_runtime.finalizers import Finalizers
from sqljobs.worker_runtime.job_steps import Steps
from sqljobs.worker_runtime.own_transactions import OwnTransactions, refuse_inside
from sqljobs.worker_runtime.progress import ProgressReports
from sqljobs.worker_runtime.registry import defaults_of
from sqljobs.worker_runtime.spending import Amount, Duration, Spending
from sqljobs.worker_runtime.stop_request import StopRequest

MOST_SPAWNED = 100_000


class RunningJob:
    """The job that this child process runs. The same object from any thread of the child."""

    def __init__(self, lease: Lease, database: Database, request: StopRequest | None = None) -> None:
        self._request = request
        self._lease = lease
        # The handler may take hours, and its own connections may be from the same pool.
        self._database = database = replace(database, keeps_connections=False)
        self._spending = Spending(lease.fence, database)
        own = OwnTransactions(lease.fence, database)
        self._checkpoints = Checkpoints(own)
        self._steps = Steps(own)
        self._progress = ProgressReports(own)
        self.finalizers = Finalizers()
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
        """Why this attempt is asked to end: "cancel", "timeout", "memory", "shutdown", "lease_lost"; else None.

        For a handler that can end in good order: SIGTERM (`Stopping`) follows after half of `kill_grace`, SIGKILL at
        its end. What it returns or raises counts, but after a cancel."""
        return None if self._request is None else self._request.reason

    @property
    def devices(self) -> Mapping[str, tuple[str, ...]]:
        """Units of devices that this attempt has for itself, by name: `{"gpu": ("0",)}`."""
        return {name: tuple(units) for name, units in self._lease.devices.items()}

    @property
    def last_checkpoint(self) -> Any:
        """What this attempt, or the last one that did, has given to `checkpoint`; None at first. A copy each time.

        Read from the database at the first use. Raises `DatabaseUnavailable`."""
        return self._checkpoints.last()

    def checkpoint(self, data: object) -> None:
        """Keep `data` for the next attempt, in the place of what was kept before. Durable when it returns.

        JSON as for results, at most 4 MiB; InvalidJob for what is none. Raises `NoRunningJob` when the attempt is over:
        then stop, another one may be running. `DatabaseUnavailable` when the database stays away."""
        self._checkpoints.write(data)

    def step(self, name: str, fn: Callable[..., Any], /, *args: Any, session: bool = False, **kwargs: Any) -> Any:
        """Call `fn(*args, **kwargs)` once per job, and return its JSON value as it was stored: a later attempt gets the
        same without a call. With a coroutine function: to be awaited.

        An attempt that dies between the call and the write of its value calls again. With `session=True`, `fn` gets a
        SQLAlchemy Session as first argument, and what it writes is committed together with its value, once; `fn` must
        be short, commits nothing itself, and may be called again where its transaction must be repeated. Steps may call
        other steps, but not within a session. Raises `InvalidJob` for a bad name (1-200 characters), for a value that
        is no JSON or above 4 MiB, and for a name that runs already; otherwise as `checkpoint`, and what `fn` raises."""
        return self._steps.run(name, fn, args, kwargs, session=session)

    def finalize_with(self, fn: Callable[[Session], Any]) -> None:
        """Call `fn(session)` in the transaction that writes the end, if this attempt ends `done`; several in order.

        What it writes through the session is written once, if and only if the result is. It must be short, commits
        nothing itself, and may be called again where that transaction must be repeated. Where it raises, the attempt
        ends as `error` and nothing of it is written. Raises `InvalidJob` for anything but a plain function."""
        self.finalizers.add(fn)

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far this has come, for `list`, `show`, `status` and `wait`. Cheap: written twice a second at most,
        the last word with the end of the attempt, and left out while the database is busy or away.

        Raises `InvalidJob` for what is no finite number; a note is cut at 1000 bytes."""
        self._progress.report(done, total, note)

    @property
    def unwritten_progress(self) -> Progress | None:
        """The last word, if it is still to be written."""
        return self._progress.unwritten

    def spend(self, name: str, amount: Amount) -> Decimal:
        """Count `amount` of a limit as spent by this attempt, whether there is room or not: money that is gone is gone.

        Durable at once, in a transaction of its own, whatever becomes of the attempt. Returns what the limit has left,
        below 0 when it is overspent, which blocks later starts. Raises `InvalidJob` for a bad amount or a limit that
        does not exist, `NoRunningJob` when the attempt is over, `DatabaseUnavailable`."""
        refuse_inside("spend")
        return self._spending.spend(name, amount)

    def take(self, name: str, amount: Amount = 1, timeout: Duration | None = None) -> Decimal:
        """Wait until there is room for `amount` of a limit, and count it: a call of an API, or its price.

        Holds no connection while it waits. Returns and raises as `spend`; `InvalidJob`, too, for more than the limit
        ever has, and `LimitTimeout`, with nothing counted, after `timeout` (seconds, `90s`, timedelta; None: never)."""
        refuse_inside("take")
        return self._spending.take(name, amount, timeout)

    async def take_async(self, name: str, amount: Amount = 1, timeout: Duration | None = None) -> Decimal:
        """`take` for async handlers: the event loop goes on meanwhile."""
        refuse_inside("take_async")
        return await self._spending.take_async(name, amount, timeout)

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
        self.finalizers.refuse_within("spawn")
        spec = spec_of(job, args, options)
        if spec.given.get("parent") not in (None, self.id):
            raise InvalidJob("spawn makes members of this very job: leave parent out, or call job.enqueue")
        self._check(spec)
        self._children.append(spec)
        return spec

    def enqueue(self, job: str | JobSpec, args: Mapping[str, Any] | None = None, /, **options: Any) -> JobSpec:
        """Enqueue a job that is no member of this one, such as a follower with `after=[job.id]`: written if, and only
        if, this attempt ends `done`, with that end. Inherits, returns and raises as `spawn`."""
        self.finalizers.refuse_within("enqueue")
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
