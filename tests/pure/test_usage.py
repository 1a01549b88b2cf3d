"""The ledger of use: what decays and what does not, what is published, and how far behind a group can be."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.supervisor.fair_share import Usage, expected_seconds
from sqljobs.supervisor.usage import UsageLedger, least_allowed

STEADY = 600 / math.log(2)  # what a slot that never rests adds up to under the decay


def used(ledger: UsageLedger, seconds: float, group: str, now: float) -> float:
    """Run one job and return the time of its end."""
    job_id = hash((group, now))
    ledger.start(job_id, group, now)
    ledger.end(job_id, now + seconds)
    return now + seconds


def test_use_counts_time_in_flight_and_halves() -> None:
    ledger = UsageLedger()
    ledger.start(1, "a", 1000.0)
    assert ledger.snapshot(1010.0)["a"].slot_seconds == pytest.approx(10, rel=0.01)
    ledger.end(1, 1010.0)
    before = ledger.snapshot(1010.0)["a"]
    after = ledger.snapshot(1610.0)["a"]
    assert after.slot_seconds == pytest.approx(before.slot_seconds / 2)
    assert after.starts == pytest.approx(before.starts / 2)


def test_a_second_start_an_unknown_end_and_a_clock_set_back_change_nothing() -> None:
    ledger = UsageLedger()
    ledger.start(1, "a", 100.0)
    ledger.start(1, "a", 100.0)
    ledger.end(2, 100.0)
    before = ledger.snapshot(110.0)
    assert before["a"].starts == pytest.approx(1.0)
    assert ledger.snapshot(50.0) == before


def test_what_is_published_decays_even_if_the_group_waits() -> None:
    ledger = UsageLedger()
    ledger.snapshot(0.0, {"a": 1})
    ledger.start(1, "a", 0.0)
    (row,) = ledger.rows(144_000.0)
    assert row[0] == "a"
    assert row[1:] == pytest.approx((STEADY, 0.0, 144_000.0))
    assert ledger.snapshot(144_000.0)["a"] == Usage(144_000.0, 1.0)


def test_what_decayed_to_nothing_is_forgotten() -> None:
    ledger = UsageLedger()
    end = used(ledger, 10.0, "a", 0.0)
    assert ledger.rows(end)
    assert ledger.snapshot(end)
    assert ledger.rows(end + 20 * 600) == []
    assert ledger.snapshot(end + 20 * 600) == {}


def test_a_job_in_flight_longer_than_the_half_life_keeps_the_mean_length_sane() -> None:
    ledger = UsageLedger()
    ledger.start(1, "a", 0.0)
    assert expected_seconds(ledger.snapshot(144_000.0)) == pytest.approx(STEADY)


def test_published_use_of_others_counts_once() -> None:
    ledger = UsageLedger()
    ledger.absorb([("a", 100.0, 10.0, 0.0)])
    ledger.absorb([("a", 100.0, 10.0, 0.0)])
    assert ledger.snapshot(0.0) == {"a": Usage(100.0, 10.0)}
    ledger.absorb([("a", 100.0, 10.0, 0.0), ("a", 30.0, 3.0, 0.0), ("b", 7.0, 1.0, 0.0)])
    assert ledger.snapshot(0.0) == {"a": Usage(130.0, 13.0), "b": Usage(7.0, 1.0)}
    assert ledger.snapshot(600.0)["a"] == Usage(65.0, 6.5)


def test_old_rows_fade_and_rows_that_go_take_nothing_back() -> None:
    ledger = UsageLedger()
    ledger.snapshot(1200.0)
    ledger.absorb([("gone", 100.0, 4.0, 0.0), ("a", 10.0, 1.0, 1200.0)])
    assert ledger.snapshot(1200.0) == {"gone": Usage(25.0, 1.0), "a": Usage(10.0, 1.0)}
    ledger.absorb([])
    assert ledger.snapshot(1200.0) == {"gone": Usage(25.0, 1.0), "a": Usage(10.0, 1.0)}


def test_two_ledgers_agree_on_a_long_job_as_it_runs() -> None:
    runs, looks = UsageLedger(), UsageLedger()
    runs.snapshot(0.0, {"a": 1})
    looks.snapshot(0.0, {"a": 1})
    runs.start(1, "a", 0.0)
    for now in range(5, 14_400, 5):
        looks.absorb(runs.rows(float(now)))
    seen, known = looks.snapshot(14_395.0)["a"], runs.snapshot(14_395.0)["a"]
    assert seen.slot_seconds == pytest.approx(known.slot_seconds, rel=0.01)
    assert seen.starts == pytest.approx(known.starts, rel=0.01)


def test_use_of_a_waiting_group_stays() -> None:
    ledger = UsageLedger()
    ledger.snapshot(0.0, {"a": 1, "b": 1})
    used(ledger, 100.0, "a", 0.0)
    assert ledger.snapshot(50_000.0, {"a": 1, "b": 1})["a"] == Usage(100.0, 1.0)
    ledger.snapshot(50_000.0, {"b": 1})
    assert ledger.snapshot(50_600.0)["a"] == Usage(50.0, 0.5)


def test_who_begins_to_wait_begins_at_the_level_of_the_least_served() -> None:
    ledger = UsageLedger()
    ledger.snapshot(0.0, {"a": 1, "b": 2})
    now = used(ledger, 300.0, "b", used(ledger, 200.0, "a", 0.0))
    usage = ledger.snapshot(now, {"a": 1, "b": 2, "new": 4})
    assert usage["a"].slot_seconds == 200
    assert usage["b"].slot_seconds == 300
    assert usage["new"].slot_seconds == pytest.approx(4 * 150)
    assert expected_seconds(usage) == pytest.approx(250)  # the booking did not change the mean length


def test_a_booking_is_not_published() -> None:
    ledger = UsageLedger()
    ledger.snapshot(0.0, {"a": 1})
    now = used(ledger, 100.0, "a", 0.0)
    assert "new" in ledger.snapshot(now, {"a": 1, "new": 1})
    assert [group for group, *_ in ledger.rows(now)] == ["a"]


def test_lag_is_bounded() -> None:
    assert least_allowed({"a": 0.0, "b": 50.0}, {"a": 1, "b": 1}, 100.0) == {"a": -75.0, "b": -75.0}
    assert least_allowed({"a": 0.0, "b": 10_000.0}, {"a": 2, "b": 1}, 100.0) == {"a": 19_900.0, "b": 9900.0}
    assert least_allowed({}, {}, 100.0) == {}


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.floats(0, 1e7), st.integers(1, 100)), min_size=1),
    st.floats(1, 1e4),
)
def test_somebody_is_always_within_the_allowance(groups: dict[str, tuple[float, int]], allowance: float) -> None:
    used_by = {name: slot_seconds for name, (slot_seconds, _) in groups.items()}
    least = least_allowed(used_by, {name: weight for name, (_, weight) in groups.items()}, allowance)
    assert any(used_by[name] >= least[name] for name in groups)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["start", "end", "snapshot", "rows"]), st.integers(0, 5), st.floats(0, 1e5)), max_size=40
)


@settings(deadline=None)
@given(EVENTS)
def test_any_history_stays_finite_and_bounded(events: list[tuple[str, int, float]]) -> None:
    ledger, now, starts, most = UsageLedger(), 0.0, 0, 0.0
    for what, number, passed in events:
        most += passed * 6
        now += passed
        if what == "start":
            ledger.start(number, "abc"[number % 3], now)
            starts += 1
        elif what == "end":
            ledger.end(number, now)
        elif what == "rows":
            for _, slot_seconds, begun, as_of in ledger.rows(now):
                assert 0 <= slot_seconds <= 6 * STEADY + 1e-6
                assert 0 <= begun <= starts
                assert as_of == now
        else:
            waiting = {"abc"[n]: n + 1 for n in range(number % 4)}
            for entry in ledger.snapshot(now, waiting).values():
                assert 0 <= entry.slot_seconds <= 3 * most + 1
                assert math.isfinite(entry.starts)
