"""Windows of budgets and rates: which one a moment is in, how they are written, when they end. Pure: reads no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqljobs.schema.durations import EARLIEST, parse_duration
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.renderings import shown

CALENDAR = ("day", "month")
FOR_EVER = "all"
SHORTEST, LONGEST = 0.001, 3650 * 86_400.0
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Window:
    """One window of a budget. `key` names it in the rows; `end` is the first moment after it, None: there is none."""

    key: str
    end: datetime | None


def check_per(value: object, *, calendar: bool) -> str:
    """`value` as it is stored: seconds as text, or with `calendar` also `day` or `month`. Raises `InvalidJob`."""
    if calendar and value in CALENDAR:
        return str(value)
    try:
        seconds = parse_duration(value, what="per")
    except InvalidJob:
        also = ", or day or month" if calendar else ""
        raise InvalidJob(f"per must be a duration such as 10s or 1h{also}, not {shown(value)}") from None
    if not SHORTEST <= seconds <= LONGEST:
        raise InvalidJob(f"per must be from 1ms to 3650d, not {shown(value)}")
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def length_of(per: str) -> timedelta:
    """The length of the window of a rate."""
    return timedelta(seconds=float(per))


def longest(per: str) -> timedelta:
    """The longest window that `per` stands for."""
    return {"day": timedelta(days=1), "month": timedelta(days=31)}.get(per) or length_of(per)


def shown_per(per: str | None) -> int | float | str | None:
    """`per` as JSON shows it: seconds, `day`, `month`, or None."""
    if per is None or per in CALENDAR:
        return per
    seconds = float(per)
    return int(seconds) if seconds.is_integer() else seconds


def window_at(per: str | None, now: datetime) -> Window:
    """The window of a budget that `now` (aware) is in: aligned to UTC days and months, else to the epoch."""
    now = now.astimezone(UTC)
    if per is None:
        return Window(FOR_EVER, None)
    if per == "month":
        start = datetime(now.year, now.month, 1, tzinfo=UTC)
        return Window(_key(start, "m"), (start + timedelta(days=32)).replace(day=1))
    length = timedelta(days=1) if per == "day" else length_of(per)
    start = EARLIEST + (now - EARLIEST) // length * length
    return Window(_key(start, "d" if per == "day" else ""), start + length)


def _key(start: datetime, calendar: str = "") -> str:
    """`calendar`: so that a day is not taken for the hour that begins with it when a budget's `per` is changed."""
    return f"{(start - EARLIEST) // _MICROSECOND:018d}{calendar}"


def key_before(now: datetime) -> str:
    """The key of a window that began at `now`: keys, all of one length but for a letter, sort by time."""
    return _key(now)
