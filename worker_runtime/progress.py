"""How far the handler says it has come: written now and then, and with the end. Never the cause of a failure."""

from __future__ import annotations

import threading
import time
from numbers import Real

from sqlalchemy.exc import SQLAlchemyError

from sqljobs.schema.errors import Error, InvalidJob
from sqljobs.schema.job_info import Progress
from sqljobs.schema.progress import write_progress
from sqljobs.schema.renderings import safe_text, shown
from sqljobs.schema.transactions import CommitUnknown, NotCommitted
from sqljobs.worker_runtime.own_transactions import OwnTransactions, is_inside

NOTE_BYTES = 1000
SECONDS_BETWEEN = 0.5
SHARE = 0.05  # of the handler's time, at most, also where the database is slow or away
PATIENCE_SECONDS = 0.2
MOST = 1e300


class ProgressReports:
    """What the running attempt has said of its progress. `unwritten`: the last word, if no row has it yet."""

    def __init__(self, own: OwnTransactions) -> None:
        self._own = own.impatient()
        self._lock = threading.Lock()
        self._next_at = 0.0
        self.unwritten: Progress | None = None

    def report(self, done: float, total: float | None, note: str | None) -> None:
        """See `RunningJob.progress`."""
        progress = Progress(
            done=_number("done", done),
            total=None if total is None else _number("total", total),
            note=None if note is None else safe_text(_note(note), limit_bytes=NOTE_BYTES),
        )
        self.unwritten = progress
        if is_inside() or not self._lock.acquire(blocking=False):  # whoever writes just now has a later chance
            return
        try:
            if time.monotonic() >= self._next_at:
                self._write(progress)
        finally:
            self._lock.release()

    def _write(self, progress: Progress) -> None:
        begun = time.monotonic()
        try:
            self._own.write(
                *("progress", lambda tx: write_progress(tx, self._own.fence, progress), lambda _: NotCommitted),
                patience=PATIENCE_SECONDS,
            )
        except (Error, SQLAlchemyError, CommitUnknown):
            written = False  # said again with the next report, or with the end
        else:
            written = True
        if written and self.unwritten is progress:
            self.unwritten = None
        ended = time.monotonic()
        self._next_at = ended + max(SECONDS_BETWEEN, (ended - begun) / SHARE)


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not -MOST <= value <= MOST:  # type: ignore[operator] # all of these compare
        raise InvalidJob(f"progress: {what} must be a finite number, not {shown(value)}")
    return float(value)


def _note(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidJob(f"progress: note must be text, not {shown(value)}")
    return value
