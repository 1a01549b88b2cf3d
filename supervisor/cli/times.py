"""Durations, ages and sizes in the words that people read. Pure."""

from __future__ import annotations

from datetime import datetime

_STEPS = ((86_400, "d"), (3600, "h"), (60, "m"))


def duration(seconds: float | None) -> str:
    """`0.3s`, `42s`, `5m`, `3h 20m`, `2d 4h`; nothing for None."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for place, (size, unit) in enumerate(_STEPS):
        if whole >= size:
            rest_size, rest_unit = (*_STEPS, (1, "s"))[place + 1]
            rest = whole % size // rest_size
            return f"{whole // size}{unit}" + (f" {rest}{rest_unit}" if rest else "")
    return f"{whole}s"


def age(moment: datetime | None, now: datetime) -> str:
    """How long ago `moment` was in its largest unit, or `in 5m` for one that is ahead."""
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if seconds < 0:
        return f"in {_largest(-seconds)}"
    return "now" if seconds < 1 else f"{_largest(seconds)} ago"


def _largest(seconds: float) -> str:
    return duration(seconds).partition(" ")[0] if seconds >= 10 else f"{seconds:.0f}s"


def clock(moment: datetime) -> str:
    """`2026-11-29 12:00:00Z`."""
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def size(count: int | None) -> str:
    """Bytes as `900 KB`, `25 MB`, `1.5 GB`; nothing for None."""
    if count is None:
        return ""
    for limit, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if count >= limit:
            return f"{count / limit:.{0 if count >= 10 * limit else 1}f} {unit}"
    return f"{count} B"
