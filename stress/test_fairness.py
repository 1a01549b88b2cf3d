"""Fairness over thousands of decisions, in simulated time: shares, late comers, long jobs, several supervisors."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.supervisor.fair_share import Candidate, rank
from sqljobs.supervisor.usage import UsageLedger
from stress.simulation import Length, Simulation

HOUR = 3600.0
WEIGHTS = {"a": 1, "b": 2, "c": 5}


def equal(seconds: float) -> Length:
    return lambda _: seconds


def mixed(seconds: float) -> Length:
    rnd = Random(7)
    return lambda _: seconds * rnd.choice((1.0, 20.0))


def longer(group: str, seconds: float) -> Length:
    return lambda name: seconds * (20.0 if name == group else 1.0)


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("staggered", [False, True])
@pytest.mark.parametrize(
    ("length", "decisions"),
    [
        pytest.param(equal(1.0), 1000, id="1s"),
        pytest.param(equal(60.0), 1000, id="60s"),
        pytest.param(equal(40 * HOUR), 1000, id="40h"),
        pytest.param(mixed(1.0), 1500, id="mixed-1s"),
        pytest.param(mixed(2 * HOUR), 1500, id="mixed-2h"),
        pytest.param(longer("a", 10.0), 4000, id="light-20x"),
        pytest.param(longer("c", HOUR), 1500, id="heavy-20x-1h"),
    ],
)
def test_slot_time_follows_the_weights(slots: int, staggered: bool, length: Length, decisions: int) -> None:
    assert Simulation(WEIGHTS, [slots], length).run(decisions, staggered=staggered).worst_error() < 0.05


@pytest.mark.parametrize("length", [equal(1.0), mixed(600.0)], ids=["equal", "mixed"])
def test_ten_thousand_decisions(length: Length) -> None:
    assert Simulation(WEIGHTS, [3], length).run(10_000, staggered=True).worst_error() < 0.02


def test_four_hundred_starts() -> None:
    starts = Counter(Simulation(WEIGHTS, [3], equal(5.0)).run(400).order_after(0.0))
    assert all(abs(starts[group] / starts.total() * 8 / weight - 1) < 0.1 for group, weight in WEIGHTS.items())


@pytest.mark.parametrize("slots", [[2, 1], [3, 3, 2], [1, 7]])
@pytest.mark.parametrize(
    ("length", "decisions"), [(equal(2.0), 1500), (mixed(20.0), 600), (longer("a", 1.0), 4000), (equal(1000.0), 160)]
)
def test_supervisors_converge(slots: list[int], length: Length, decisions: int) -> None:
    assert Simulation(WEIGHTS, slots, length).run(decisions).worst_error() < 0.05


@pytest.mark.parametrize("seconds", [1.0, 60.0, 40 * HOUR])
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("weights", [{"a": 1, "n": 1}, {"a": 1, "n": 5}, {"a": 5, "n": 1}])
def test_a_newcomer_neither_takes_over_nor_waits_long(seconds: float, slots: int, weights: dict[str, int]) -> None:
    joins = 300 * seconds
    run = Simulation(weights, [slots], equal(seconds), lambda g, now: g == "a" or now >= joins).run(300 * slots + 300)
    after = run.order_after(joins)
    assert "n" in after[: slots + weights["a"]]
    assert "a" in after[: slots + weights["n"]]
    window = after[:60]
    assert abs(window.count("n") / 60 - weights["n"] / sum(weights.values())) < 0.05


@pytest.mark.parametrize("seconds", [1.0, 60.0, 40 * HOUR])
def test_who_used_much_alone_is_served_soon_after(seconds: float) -> None:
    away, back = 300 * seconds, 400 * seconds
    run = Simulation(
        {"a": 1, "b": 1}, [1], equal(seconds), lambda g, now: not away <= now < back if g == "a" else now >= away
    ).run(1100)
    assert run.order_after(back).index("a") * seconds <= max(600.0, 2 * seconds)


@pytest.mark.parametrize("slots", [1, 4])
def test_many_groups_few_slots_none_starves(slots: int) -> None:
    weights = {f"g{n}": 1 + n % 5 for n in range(30)}
    run = Simulation(weights, [slots], equal(100.0)).run(1500)
    last: dict[str, int] = dict.fromkeys(weights, 0)
    for turn, (_, group) in enumerate(run.started):
        assert turn - last[group] <= 2 * 90 / weights[group] + slots
        last[group] = turn
    assert run.worst_error() < 0.06


def test_a_blocked_group_is_owed_a_bounded_amount() -> None:
    ledger, weights, order = UsageLedger(), {"a": 1, "b": 1}, ""
    for turn in range(900):
        now = turn * HOUR
        ready = [Candidate(2 * turn, "a", 1, 0, now), Candidate(2 * turn + 1, "b", 1, 0, now)]
        (job_id,) = rank(ready[1:] if 300 <= turn < 800 else ready, [], ledger.snapshot(now, weights), slots_free=1)
        group = "ab"[job_id % 2]
        ledger.start(job_id, group, now)
        ledger.end(job_id, now + HOUR)
        order += group
    assert order[800:].index("b") <= 12


def test_restarts_do_not_disturb_the_shares() -> None:
    ledger, rows, starts = UsageLedger(), list[tuple[str, float, float, float]](), Counter[str]()
    for turn in range(4000):
        now = turn * 1000.0
        if turn % 200 == 199:
            rows += ledger.rows(now)
            ledger = UsageLedger()
            ledger.absorb(rows)
        ready = [Candidate(3 * turn + n, group, weight, 0, now) for n, (group, weight) in enumerate(WEIGHTS.items())]
        (job_id,) = rank(ready, [], ledger.snapshot(now, WEIGHTS), slots_free=1)
        group = "abc"[job_id % 3]
        starts[group] += 1
        ledger.start(job_id, group, now)
        ledger.end(job_id, now + 1000.0)
    assert all(abs(starts[group] / 4000 * 8 / weight - 1) < 0.05 for group, weight in WEIGHTS.items())


@settings(max_examples=6, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 8), min_size=2),
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.floats(6.0, 1e5),
)
def test_any_weights_any_slots_any_length(weights: dict[str, int], slots: list[int], seconds: float) -> None:
    run = Simulation(weights, slots, equal(seconds if len(slots) == 1 else min(seconds, 60.0))).run(1000)
    assert run.worst_error() < 0.08
