"""How the supervisor asks a child to end, and what the attempt is to be recorded as if it does so for that reason.

A page of memory shared since before the fork: no signal, no descriptor, nothing that a handler could be deaf to."""

from __future__ import annotations

import mmap
import os

from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.worker_runtime.stack_dump import nameless_file

# What `job.stopping` says -> how an attempt ends that ends for it, and why, where nothing more is known.
ENDS: dict[str, tuple[Cause, str]] = {
    "cancel": (Cause.CANCELLED, "stopped: the job was cancelled"),
    "timeout": (Cause.TIMEOUT, "stopped: it ran longer than its timeout"),
    "memory": (Cause.MEMORY, "stopped: its processes held more memory than its limit"),
    "shutdown": (Cause.INTERRUPTED, "stopped: the supervisor shut down"),
    "lease_lost": (Cause.LEASE_LOST, "stopped: the lease was lost"),
}
_REASONS = tuple(ENDS)
_TEXT_BYTES = 500


class StopRequest:
    """Made by the parent before the fork, and asked there; read by the child.

    `descriptor`: of a file that holds the page, for a child that is no fork (`StopRequest.in_a_file`)."""

    def __init__(self, descriptor: int = -1) -> None:
        self.descriptor = descriptor
        self._page = mmap.mmap(descriptor, mmap.PAGESIZE)

    @classmethod
    def in_a_file(cls) -> StopRequest:
        """One whose `descriptor` another program can inherit. Raises OSError."""
        descriptor = nameless_file("stop-request")
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            return cls(descriptor)
        except OSError:
            os.close(descriptor)
            raise

    def ask(self, reason: str, text: str) -> None:
        """Tell the child why it is to end; `text`, one line, is the error of an attempt that ends so."""
        line = text.encode("utf-8", "replace")[:_TEXT_BYTES]
        self._page[1 : len(line) + 2] = line + b"\0"
        self._page[0] = _REASONS.index(reason) + 1  # last: with it the text counts

    @property
    def reason(self) -> str | None:
        """One of `ENDS`, or None while nothing was asked."""
        number = self._page[0]
        return _REASONS[number - 1] if number else None

    @property
    def outcome(self) -> Outcome:
        """How an attempt ends that was asked to, and does."""
        reason = self.reason
        assert reason is not None
        line = self._page[1 : 1 + _TEXT_BYTES].partition(b"\0")[0].decode("utf-8", "replace")
        return Outcome(ENDS[reason][0], error=line, deploy=reason == "shutdown")

    def close(self) -> None:
        """For the parent, when the child is dead."""
        self._page.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)
