"""Durations, sizes and moments: what is taken, what is refused, and that each refusal shows a right example."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.durations import (
    EARLIEST,
    LATEST,
    MAX_AFTER,
    MAX_SIZE,
    After,
    format_time,
    moment_at,
    parse_duration,
    parse_moment,
    parse_size,
)
from sqljobs.schema.errors import InvalidJob

SECONDS = {"": Decimal(1), "ms": Decimal("0.001"), "s": Decimal(1)}
SECONDS |= {"m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *(
            (0, 0.0),
            (7, 7.0),
            (0.25, 0.25),
            ("90", 90.0),
            ("0.05", 0.05),
            (timedelta(minutes=2, milliseconds=5), 120.005),
        ),
        *(("90s", 90.0), ("1.5m", 90.0), ("40h", 144000.0), ("7d", 604800.0), ("500ms", 0.5), (" 2 h ", 7200.0)),
        *(("1.1m", 66.0), (".5s", 0.5)),
    ],
)
def test_durations_are_seconds(value: object, seconds: float) -> None:
    assert parse_duration(value) == seconds
    assert type(parse_duration(value)) is float


@given(st.decimals(0, 10**9, places=3), st.sampled_from(sorted(SECONDS)))
def test_a_duration_is_its_number_times_its_unit(number: Decimal, unit: str) -> None:
    assert parse_duration(f"{number}{unit}") == float(number * SECONDS[unit])


@pytest.mark.parametrize(
    "value",
    [
        *(True, None, [], b"9s", 1j, Decimal(1), object(), math.nan, math.inf, pytest.param(10**400, id="huge")),
        *(
            "",
            "s",
            "-1s",
            "+1s",
            "1e3",
            "nan",
            "inf",
            "1h30m",
            "5 parsecs",
            "1.s",
            "1,5m",
            "90S",
            "٣s",
            pytest.param("9" * 10**6, id="long"),
        ),
    ],
)
def test_other_durations_are_refused(value: object) -> None:
    with pytest.raises(
        InvalidJob, match=r"^grace must be seconds or text such as 90s, 1\.5m, 40h or 7d, not "
    ) as refusal:
        parse_duration(value, what="grace")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("value", [-1, -0.001, -math.inf, timedelta(seconds=-1)])
def test_negative_durations_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match="90s"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        *(
            (0, 0),
            (4096, 4096),
            ("4096", 4096),
            ("1KB", 1000),
            ("1KiB", 1024),
            ("500MB", 500_000_000),
            ("3 MiB", 3 * 2**20),
        ),
        *(("2GiB", 2**31), ("1.5GiB", 3 * 2**29), ("0.1KB", 100), ("1GB", 10**9), (MAX_SIZE, MAX_SIZE), ("1.0", 1)),
    ],
)
def test_sizes_are_bytes(value: object, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize(
    "value",
    [
        *(True, None, 1.5, 1.0, -1, MAX_SIZE + 1, pytest.param(10**400, id="huge"), Decimal(1), b"1KB", [1]),
        *("", "KB", "-1KB", "1.5", "1kb", "1 K", "2GiBs", "nan", "9" * 60 + "GB", "1e3"),
    ],
)
def test_other_sizes_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"^memory must be .*2GiB"):
        parse_size(value, what="memory")


def test_a_moment_is_a_utc_time_or_a_distance() -> None:
    assert parse_moment(NOON) == NOON
    assert parse_moment("2026-11-29T13:00:00+01:00") == NOON
    assert parse_moment("2026-11-29 12:00:00Z") == NOON
    assert parse_moment(NOON.astimezone(timezone(timedelta(hours=-9)))) == NOON
    assert parse_moment("90s") == After(90.0)
    assert parse_moment(5) == After(5.0)
    assert parse_moment(timedelta(days=1)) == After(86400.0)
    assert parse_moment(EARLIEST) == EARLIEST
    assert parse_moment(LATEST) == LATEST


class Stamp(datetime):
    """A datetime of another library."""


def test_a_moment_is_a_plain_datetime() -> None:
    moment = parse_moment(Stamp(2026, 11, 29, 14, tzinfo=timezone(timedelta(hours=2))))
    assert type(moment) is datetime
    assert moment == NOON
    assert moment.tzinfo is UTC


@given(st.datetimes(EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None)), st.integers(-840, 840))
def test_a_moment_survives_its_iso_form(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=UTC)
    assert parse_moment(moment) == moment
    assert parse_moment(format_time(moment)) == moment
    if timedelta(days=1) < moment - EARLIEST and timedelta(days=1) < LATEST - moment:
        assert parse_moment(moment.astimezone(timezone(timedelta(minutes=minutes))).isoformat()) == moment


@pytest.mark.parametrize("value", [datetime(2026, 11, 29, 12), "2026-11-29T12:00:00", "2026-11-29"])
def test_naive_moments_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"^until .* has no UTC offset; write 2026-11-29T12:00:00\+00:00$"):
        parse_moment(value, what="until")


@pytest.mark.parametrize(
    "value",
    [
        *(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))),
        *(LATEST + timedelta(microseconds=1), datetime.max.replace(tzinfo=UTC), "9999-12-31T23:59:59-12:00"),
    ],
)
def test_moments_that_a_database_or_client_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match="is out of range; write a time from 1970-01-01 to 9999-12-30"):
        parse_moment(value)


@pytest.mark.parametrize(
    "value", [date(2026, 11, 29), True, None, "tomorrow", "2026-13-01T00:00:00Z", "-5s", -5, math.nan, "\ud800"]
)
def test_other_moments_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"^run_after must .*90s"):
        parse_moment(value)


def test_distances_have_a_bound_that_no_clock_overflows() -> None:
    furthest = parse_moment(MAX_AFTER)
    assert moment_at(furthest, NOON) < LATEST
    with pytest.raises(InvalidJob, match="at most 1000 years"):
        parse_moment(MAX_AFTER + 1)


def test_moment_at_reads_the_clock_given() -> None:
    assert moment_at(After(90.5), NOON) == NOON + timedelta(seconds=90.5)
    assert moment_at(EARLIEST, NOON) == EARLIEST


def test_format_time_is_utc_with_six_digits() -> None:
    assert format_time(NOON) == "2026-11-29T12:00:00.000000Z"
    east = datetime(2026, 11, 29, 14, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(east) == "2026-11-29T12:00:00.000005Z"
    assert format_time(datetime(70, 1, 1, tzinfo=UTC)) == "0070-01-01T00:00:00.000000Z"
    with pytest.raises(ValueError, match="no UTC offset"):
        format_time(datetime(2026, 11, 29))
