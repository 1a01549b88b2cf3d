"""How far the handler has come, kept for the next attempt. Remembers its text alone: what it gives out is a copy."""

from __future__ import annotations

import threading

from sqljobs.schema.checkpoints import read_checkpoint, settle_checkpoint, write_checkpoint
from sqljobs.schema.columns import JsonText
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.worker_runtime.own_transactions import OwnTransactions


class Checkpoints:
    """The checkpoint of one job, as its running attempt sees it."""

    def __init__(self, own: OwnTransactions) -> None:
        self._own = own
        self._lock = threading.RLock()
        self._text: JsonText | None = None
        self._known = own.fence.attempt == 1  # nobody has written one before

    def write(self, data: object) -> None:
        """See `RunningJob.checkpoint`."""
        text = to_json(data, where="checkpoint")
        fence = self._own.fence
        with self._lock:
            self._own.write(
                *("checkpoint", lambda tx: write_checkpoint(tx, fence, text)),
                lambda tx: settle_checkpoint(tx, fence, text),
            )
            self._text, self._known = text, True

    def last(self) -> object:
        """See `RunningJob.last_checkpoint`."""
        with self._lock:
            if not self._known:
                job_id = self._own.fence.job_id
                self._text = self._own.read("last_checkpoint", lambda tx: read_checkpoint(tx, job_id))
                self._known = True
            return from_json(self._text, where="checkpoint")
