"""The job of a handler that runs without a database: what it says of itself is kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn, cast

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from sqljobs.schema.amounts import decimal_of
from sqljobs.schema.claim import Lease
from sqljobs.schema.columns import JsonText
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.job_info import Progress
from sqljobs.schema.joined import Joined
from sqljobs.schema.moves import Fence
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.schema.transactions import Database
from sqljobs.schema.upstream import Upstream
from sqljobs.worker_runtime.checkpoints import Checkpoints
from sqljobs.worker_runtime.finalizers import Finalizer, Finalizers
from sqljobs.worker_runtime.job_session import AuthorsCode, RaisedInside
from sqljobs.worker_runtime.job_steps import Steps, text_of_step
from sqljobs.worker_runtime.own_transactions import OwnTransactions
from sqljobs.worker_runtime.progress import ProgressReports
from sqljobs.worker_runtime.running_job import RunningJob
from sqljobs.worker_runtime.spending import Amount, Duration, Spending, checked
from sqljobs.worker_runtime.stop_request import StopRequest

UNLIMITED = Decimal("Infinity")


class _NoDatabase(Database):
    """What would need one says so."""

    def transaction(self, name: str, *_: Any, **__: Any) -> NoReturn:
        raise InvalidJob(f"{name}: run_inline has no database; use sqljobs.testing.drain for what needs one")

    read = transaction


class Joining:
    """The test's own transaction, where it has given one, for what a handler writes with a session of its job."""

    def __init__(self, session: Session | None) -> None:
        self._joined = None if session is None else Joined.to("run_inline", session)
        self.fault: InvalidJob | None = None

    def __call__(self, who: str) -> Joined:
        """Raises `InvalidJob`, and keeps it, where there is none."""
        if self._joined is None:
            self.fault = InvalidJob(f"{who} needs a session: give run_inline one of your test database (session=...)")
            raise self.fault
        return self._joined


class MemoryJob(RunningJob):
    """`RunningJob` without a database."""

    def __init__(
        self,
        lease: Lease,
        joining: Joining,
        *,
        checkpoint: JsonText | None,
        upstream: Sequence[Upstream],
        request: StopRequest,
    ) -> None:
        super().__init__(lease, _NoDatabase(cast(Engine, None), cast(Any, None)), request)
        own = OwnTransactions(lease.fence, self._database)
        self._spending = self.account = _Account(lease.fence, self._database)
        self._checkpoints = self.kept = _Kept(own, checkpoint)
        self._steps = _MemorySteps(own, joining)
        self._progress = _Unwritten(own)
        self.finalizers = _NeedsSession(joining)
        self.upstream = tuple(upstream)

    def run_finalizers(self, joining: Joining) -> None:
        """What the handler has prepared to be done with its end. Raises `RaisedInside`."""
        if len(self.finalizers):
            joining("finalize_with").transaction("finalize", self.finalizers.run)

    @property
    def last_progress(self) -> Progress | None:
        """The last word."""
        return self._progress.unwritten


class _Kept(Checkpoints):
    def __init__(self, own: OwnTransactions, text: JsonText | None) -> None:
        super().__init__(own)
        self.text = text

    def write(self, data: object) -> None:
        self.text = to_json(data, where="checkpoint")

    def last(self) -> object:
        return from_json(self.text, where="checkpoint")


class _MemorySteps(Steps):
    def __init__(self, own: OwnTransactions, joining: Joining) -> None:
        super().__init__(own)
        self._joining = joining
        self._values: dict[str, JsonText | None] = {}

    def _has_run(self, name: str) -> bool:
        return name in self._values

    def _remembered(self, name: str) -> object:
        return from_json(self._values[name], where=f"step {name!r}")

    def _remember(self, name: str, value: object) -> object:
        self._values[name] = text_of_step(name, value)
        return self._remembered(name)

    def _run_inside(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> object:
        code = AuthorsCode(f"the step {name!r}")
        joined = self._joining(f"step {name!r}")
        try:
            value = joined.transaction(
                "step", lambda tx: code.run(tx, lambda session: function(session, *args, **keywords))
            )
        except RaisedInside as raised:
            raise raised.error from raised.error.__cause__
        return self._remember(name, value)


class _Unwritten(ProgressReports):
    def _write(self, progress: Progress) -> None:
        """The last word is all that is looked at."""


class _NeedsSession(Finalizers):
    def __init__(self, joining: Joining) -> None:
        super().__init__()
        self._joining = joining

    def add(self, function: Finalizer) -> None:
        super().add(function)
        self._joining("finalize_with")


class _Account(Spending):
    """Counts, and has no end."""

    def __init__(self, fence: Fence, database: Database) -> None:
        super().__init__(fence, database)
        self._micros: dict[str, int] = {}

    @property
    def spent(self) -> dict[str, Decimal]:
        """What was spent and taken, by name."""
        return {name: decimal_of(micros) for name, micros in self._micros.items()}

    def spend(self, name: str, amount: Amount) -> Decimal:
        return self._count("spend", name, amount)

    def take(self, name: str, amount: Amount, timeout: Duration | None) -> Decimal:
        del timeout  # there is always room
        return self._count("take", name, amount)

    async def take_async(self, name: str, amount: Amount, timeout: Duration | None) -> Decimal:
        return self.take(name, amount, timeout)

    def _count(self, what: str, name: str, amount: Amount) -> Decimal:
        limit, micros = checked(what, name, amount)
        with self._lock:
            self._micros[limit] = self._micros.get(limit, 0) + micros
        return UNLIMITED
