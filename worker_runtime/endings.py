"""How a handler ends its attempt in another way than by returning or by an error: it raises one of these."""

from __future__ import annotations

from datetime import timedelta

from sqljobs.schema.durations import parse_duration


class Ending(Exception):
    """Root of the endings below."""


class Retry(Ending):
    """Try again: after `after` seconds (or `90s`, `timedelta`), or by the handler's backoff. Uses up an attempt."""

    def __init__(self, after: float | str | timedelta | None = None, reason: str | None = None) -> None:
        super().__init__(reason or "the handler asked for a retry")
        self.after = None if after is None else parse_duration(after, what="after")


class Snooze(Ending):
    """Not now: run again after `after` seconds. Uses up no attempt."""

    def __init__(self, after: float | str | timedelta) -> None:
        self.after = parse_duration(after, what="after")
        super().__init__(f"snoozed for {self.after} s")


class Fail(Ending):
    """Give up: the job is `failed` whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Cancel(Ending):
    """The job is not wanted any more: it is `cancelled`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


for _public in (Retry, Snooze, Fail, Cancel):
    _public.__module__ = "sqljobs"  # as tracebacks, and so the stored errors, shall name them
