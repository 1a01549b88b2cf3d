"""Windows follow each other without a gap and are aligned to UTC."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.windows import check_per, shown_per, window_at

moments = st.datetimes(datetime(1970, 1, 1), datetime(9990, 1, 1), timezones=st.just(UTC))
pers = st.sampled_from(["day", "month", "0.25", "1", "10", "3600", "86400", "604800", "7"])


@given(pers, moments)
def test_a_moment_is_in_its_window_and_the_end_is_in_the_next(per: str, now: datetime) -> None:
    window = window_at(per, now)
    assert window.end is not None
    assert window.end > now
    assert window_at(per, window.end - timedelta(microseconds=1)) == window
    following = window_at(per, window.end)
    assert following.key > window.key  # they sort by time
    assert len(following.key) == len(window.key) <= 20


@given(st.sampled_from(["1", "10", "86400"]), moments)
def test_windows_of_a_duration_are_aligned_to_the_epoch(per: str, now: datetime) -> None:
    end = window_at(per, now).end
    assert end is not None
    assert (end - datetime(1970, 1, 1, tzinfo=UTC)) % timedelta(seconds=float(per)) == timedelta(0)


@given(moments)
def test_windows_of_different_lengths_that_begin_together_are_different(now: datetime) -> None:
    midnight = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    assert len({window_at(per, midnight).key for per in ("3600", "day", "month", None)}) == 4


def test_days_and_months_are_those_of_utc() -> None:
    here = datetime(2026, 12, 31, 23, 30, tzinfo=UTC).astimezone()
    assert window_at("day", here).end == datetime(2027, 1, 1, tzinfo=UTC)
    assert window_at("month", here).end == datetime(2027, 1, 1, tzinfo=UTC)
    assert window_at("month", datetime(2024, 2, 10, tzinfo=UTC)).end == datetime(2024, 3, 1, tzinfo=UTC)
    assert window_at(None, here) == window_at(None, here + timedelta(days=400))


@pytest.mark.parametrize(("given", "stored", "shown"), [("10s", "10", 10), (0.5, "0.5", 0.5), ("1h", "3600", 3600)])
def test_a_duration_is_stored_in_seconds(given: object, stored: str, shown: float) -> None:
    assert check_per(given, calendar=False) == stored
    assert shown_per(stored) == shown


@pytest.mark.parametrize("given", ["0s", "never", "-1s", None, "day", "4000d", True, float("nan")])
def test_bad_windows_of_a_rate_are_refused(given: object) -> None:
    with pytest.raises(InvalidJob, match="per must be"):
        check_per(given, calendar=False)


def test_a_budget_may_follow_the_calendar() -> None:
    assert [check_per(word, calendar=True) for word in ("day", "month")] == ["day", "month"]
    assert shown_per("day") == "day"
    assert shown_per(None) is None
    with pytest.raises(InvalidJob, match="day or month"):
        check_per("year", calendar=True)
