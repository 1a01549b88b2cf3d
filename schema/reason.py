"""One reason why a job is not running, and the small words that all of them are told in. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqljobs.schema.renderings import one_line

BLOCKERS_SHOWN = 20
NAMED = 3
LINE_BYTES = 300


@dataclass(frozen=True)
class Reason:
    """Why a job is not running. `code`: dependency, scheduled, hold, no_supervisor, unknown_type, no_such_limit,
    impossible, limit, device, rank, container, running or ended. `job_id`: the job, or container, that it is about;
    `until`: when time alone may change it (aware); `blockers`: at most 20 jobs that are in the way."""

    code: str
    text: str
    job_id: int | None = None
    until: datetime | None = None
    blockers: tuple[int, ...] = ()


def moment(when: datetime) -> str:
    """`2026-11-29 12:00:00Z`; a part of a second is left out."""
    return when.strftime("%Y-%m-%d %H:%M:%SZ")


def said(text: str | None) -> str:
    """What somebody wrote, on one line of bearable length."""
    return one_line(text or "", limit_bytes=LINE_BYTES)


def numbered(names: Sequence[object], count: int | None = None, noun: str = "job") -> str:
    """`job 4`, `jobs 4 and 5`, `jobs 4, 5, 6 and 9 more`. `count`: of how many these are the first."""
    count = len(names) if count is None else count
    shown = [str(name) for name in names[:NAMED]] if count > NAMED + 1 else [str(name) for name in names[:count]]
    if count > len(shown):
        shown.append(f"{count - len(shown):,} more")
    words = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{noun} {words}" if count == 1 else f"{noun}s {words}"


def many(count: int, noun: str) -> str:
    """`1 slot`, `4 slots`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
