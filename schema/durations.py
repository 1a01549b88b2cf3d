"""Durations, sizes and moments as users write them, turned into seconds, bytes and UTC times. Pure: reads no clock."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.renderings import shown

# Units by name; a plain number is seconds or bytes.
SECONDS = {"": Fraction(1), "s": Fraction(1), "ms": Fraction(1, 1000)}
SECONDS |= {"m": Fraction(60), "h": Fraction(3600), "d": Fraction(86_400)}
BYTES = {"": Fraction(1), "KB": Fraction(10**3), "MB": Fraction(10**6), "GB": Fraction(10**9)}
BYTES |= {"KiB": Fraction(2**10), "MiB": Fraction(2**20), "GiB": Fraction(2**30)}
MAX_SIZE = 2**63 - 1
MAX_AFTER = 365_250 * 86_400.0  # 1,000 years: now + MAX_AFTER stays inside what every database can hold

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
# One day short of year 10000: a client whose session zone is ahead of UTC could not read the last hours back.
LATEST = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)

_MAX_LENGTH = 64
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) ?([A-Za-z]*)")


@dataclass(frozen=True)
class After:
    """A moment given as a distance: `seconds` from now on the database's clock, which is read later."""

    seconds: float


Moment = After | datetime


def parse_duration(value: object, *, what: str = "duration") -> float:
    """Seconds in `value`: a number of seconds, a timedelta, or text such as 90s, 1.5m, 40h, 7d, 50ms, 90.

    `what` names the option in the error. Raises `InvalidJob` for anything else, below 0, NaN and infinity included."""
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds):
        raise InvalidJob(f"{what} must be seconds or text such as 90s, 1.5m, 40h or 7d, not {shown(value)}")
    if seconds < 0:
        raise InvalidJob(f"{what} must not be below 0, as {shown(value)} is; write for example 90s")
    return seconds


def parse_size(value: object, *, what: str = "size") -> int:
    """Bytes in `value`: a whole number of bytes or text such as 500MB, 2GiB, 1.5GiB (fractions are cut to whole bytes).

    `what` names the option in the error. Raises `InvalidJob` for anything else, for below 0 and for above 2**63 - 1."""
    size: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        size = int(value)
    elif isinstance(value, str):
        quantity = _quantity(value, BYTES)
        # Without a unit only whole bytes make sense.
        if quantity is not None and (quantity.denominator == 1 or value.rstrip().endswith("B")):
            size = math.floor(quantity)
    if size is None:
        raise InvalidJob(f"{what} must be bytes or text such as 500MB or 2GiB, not {shown(value)}")
    if not 0 <= size <= MAX_SIZE:
        raise InvalidJob(f"{what} must be from 0 to 2**63 - 1 bytes, not {shown(value)}; write for example 2GiB")
    return size


def parse_moment(value: object, *, what: str = "run_after") -> Moment:
    """The moment meant by `value`: an aware datetime or ISO text with offset (returned as a plain datetime in UTC), or
    a duration from now as `parse_duration` takes it (returned as `After`). Moments in the past are fine.

    `what` names the option in the error. Raises `InvalidJob` for anything else, for a time without UTC offset, for
    times outside 1970-01-01 to 9999-12-30 and for distances above 1,000 years."""
    if isinstance(value, datetime):
        return _utc(value, value, what)
    if isinstance(value, str) and _quantity(value, SECONDS) is None:
        try:
            return _utc(datetime.fromisoformat(value.strip()), value, what)
        except InvalidJob:
            raise
        except ValueError:
            raise InvalidJob(
                f"{what} must be a time such as 2026-11-29T12:00:00+00:00 or a duration from now such as 90s, "
                f"not {shown(value)}"
            ) from None
    seconds = parse_duration(value, what=what)
    if seconds > MAX_AFTER:
        raise InvalidJob(f"{what} must be at most 1000 years from now, not {shown(value)}; write for example 7d")
    return After(seconds)


def moment_at(moment: Moment, now: datetime) -> datetime:
    """The time in UTC that `moment` names when the database's clock shows `now` (aware)."""
    return now.astimezone(UTC) + timedelta(seconds=moment.seconds) if isinstance(moment, After) else moment


def format_time(moment: datetime) -> str:
    """`moment` (aware) as 2026-11-29T12:00:00.000000Z. Raises ValueError for a naive one."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment} has no UTC offset")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _seconds(value: object) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        quantity = _quantity(value, SECONDS)
        return None if quantity is None else float(quantity)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _quantity(text: str, units: dict[str, Fraction]) -> Fraction | None:
    """Number times unit, exactly; None where `text` is something else."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
    if match is None or match[2] not in units:
        return None
    return Fraction(match[1]) * units[match[2]]


def _utc(moment: datetime, given: object, what: str) -> datetime:
    if moment.utcoffset() is None:
        raise InvalidJob(f"{what} {shown(given)} has no UTC offset; write 2026-11-29T12:00:00+00:00")
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        utc = None
    if utc is None or not EARLIEST <= utc <= LATEST:
        raise InvalidJob(
            f"{what} {shown(given)} is out of range; write a time from 1970-01-01 to 9999-12-30 in UTC, "
            f"for example 2026-11-29T12:00:00+00:00"
        )
    # A plain datetime, because drivers look up subclasses (pandas.Timestamp) by exact type.
    return datetime.combine(utc.date(), utc.time(), UTC)
