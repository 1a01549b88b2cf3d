"""Who runs next: each clause of the rounding rule, the order inside a group, and what must hold for any input."""

from collections import Counter
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.supervisor.fair_share import (
    DEFAULT_JOB_SECONDS,
    Candidate,
    Held,
    Usage,
    expected_seconds,
    order_in_group,
    quotas,
    rank,
)

NAMES = st.sampled_from("abcdef")
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        job_id=st.integers(1, 10_000),
        group=NAMES,
        weight=st.integers(1, 100),
        priority=st.integers(-5, 5),
        created_at=st.floats(0, 1e6),
    ),
    max_size=40,
    unique_by=lambda job: job.job_id,
)
HELD = st.lists(st.builds(Held, group=NAMES, elapsed=st.floats(0, 1e6)), max_size=10)
USAGE = st.dictionaries(NAMES, st.builds(Usage, slot_seconds=st.floats(0, 1e9), starts=st.floats(0, 1e6)))


def ready(**groups: tuple[int, int]) -> list[Candidate]:
    """Ready jobs of groups given as name=(weight, jobs), the first named the oldest."""
    ids = count(1)
    return [
        Candidate(next(ids), name, weight, 0, float(age))
        for age, (name, (weight, jobs)) in enumerate(groups.items())
        for _ in range(jobs)
    ]


def shares(
    jobs: list[Candidate], slots: int, *, held: list[Held] | None = None, usage: dict[str, Usage] | None = None
) -> dict[str, int]:
    group = {job.job_id: job.group for job in jobs}
    return dict(Counter(group[job_id] for job_id in rank(jobs, held or [], usage or {}, slots_free=slots)))


@pytest.mark.parametrize(
    ("jobs", "slots", "expected"),
    [
        (ready(a=(1, 9), b=(2, 9), c=(5, 9)), 8, {"a": 1, "b": 2, "c": 5}),
        (ready(a=(1, 9), b=(2, 9), c=(5, 9)), 3, {"a": 1, "b": 1, "c": 1}),
        (ready(a=(1, 9), b=(1, 9)), 3, {"a": 1, "b": 2}),  # 1.5 rounds up to 2 and 2; the first name gives
        (ready(a=(1, 9), b=(2, 9)), 5, {"a": 2, "b": 3}),  # 1.67 and 3.33: nearest
        (ready(a=(1, 9), b=(1, 9), c=(1, 9), d=(12, 9)), 5, {"a": 1, "b": 1, "c": 1, "d": 2}),  # one each at least
        (ready(a=(1, 9), b=(9, 2)), 8, {"a": 6, "b": 2}),  # capped by its ready jobs, the rest goes on
        (ready(a=(1, 9), b=(1, 9), c=(3, 1)), 10, {"a": 5, "b": 4, "c": 1}),  # equal remainders: the name decides
        (ready(a=(1, 9), b=(3, 9), c=(2, 1)), 8, {"a": 2, "b": 5, "c": 1}),  # each is owed 1/3 less than b's 1
        (ready(a=(1, 1), b=(2, 1)), 9, {"a": 1, "b": 1}),
    ],
)
def test_first_slots_follow_the_rounding_rule(jobs: list[Candidate], slots: int, expected: dict[str, int]) -> None:
    assert shares(jobs, slots) == expected


def test_more_groups_than_slots_larger_weight_then_oldest_head() -> None:
    assert shares(ready(young=(1, 2), heavy=(3, 2), other=(1, 2)), 2) == {"heavy": 1, "young": 1}
    jobs = [Candidate(1, "a", 1, 0, 9.0), Candidate(2, "b", 1, 0, 5.0)]
    assert rank(jobs, [], {}, slots_free=1) == [2]


def test_more_groups_than_slots_least_use_per_weight() -> None:
    jobs = ready(a=(1, 2), b=(2, 2), c=(5, 2))
    usage = {"a": Usage(9, 1), "b": Usage(30, 3), "c": Usage(40, 4)}
    assert rank(jobs, [], usage, slots_free=2) == [5, 1]


def test_taken_from_the_group_with_the_smallest_claim_and_ties_to_the_larger_weight() -> None:
    assert quotas({"a": (1, 9), "b": (1, 9), "c": (2, 9)}, 6) == {"a": 1, "b": 2, "c": 3}
    assert quotas({"a": (1, 9), "b": (3, 9)}, 2) == {"a": 1, "b": 1}
    assert quotas({"b": (3, 9), "a": (1, 9)}, 6) == {"a": 2, "b": 4}  # both are 1/2 over: the larger weight gives


def test_work_in_flight_counts_its_expected_rest() -> None:
    jobs = ready(a=(1, 9), b=(1, 9))
    usage = {"a": Usage(100, 10), "b": Usage(100, 10)}  # ten seconds a job
    assert shares(jobs, 2, held=[Held("a", 0.0), Held("a", 0.0)], usage=usage) == {"b": 2}
    assert shares(jobs, 2, held=[Held("a", 50.0), Held("a", 50.0)], usage=usage) == {"a": 1, "b": 1}
    assert shares(jobs, 3, held=[Held("a", 5.0)], usage=usage) == {"a": 1, "b": 2}
    assert shares(jobs, 1, held=[Held("a", 0.0)]) == {"b": 1}


def test_use_is_made_up_for_and_no_slot_idles() -> None:
    usage = {"a": Usage(30, 30)}
    assert shares(ready(a=(1, 9), b=(1, 9)), 4, usage=usage) == {"b": 4}
    assert shares(ready(a=(1, 9), b=(1, 1)), 4, usage=usage) == {"a": 3, "b": 1}


def test_a_set_weight_overrules_that_of_the_head() -> None:
    jobs = ready(a=(1, 9), b=(1, 9))
    group = {job.job_id: job.group for job in jobs}
    assert Counter(group[i] for i in rank(jobs, [], {}, slots_free=8, weights={"a": 3})) == {"a": 6, "b": 2}
    mixed = [Candidate(1, "a", 1, 0, 9.0), Candidate(2, "a", 7, 0, 1.0), Candidate(3, "b", 2, 0, 0.0)]
    assert rank(mixed, [], {}, slots_free=1) == [2]  # the head's weight is 7


def test_order_in_group() -> None:
    old, urgent, newest = Candidate(1, "a", 1, 0, 0.0), Candidate(2, "a", 1, 1, 500.0), Candidate(3, "a", 1, 1, 700.0)
    jobs = [newest, old, urgent]
    assert order_in_group(jobs, 600.0) == [urgent, old, newest]
    assert order_in_group(jobs, 0) == [urgent, newest, old]
    assert order_in_group(jobs, 1e-9) == [old, urgent, newest]
    twins = [Candidate(9, "a", 1, 0, 1.0), Candidate(4, "a", 1, 0, 1.0)]
    assert [job.job_id for job in order_in_group(twins, 600.0)] == [4, 9]
    assert [job.job_id for job in order_in_group(twins, 0)] == [4, 9]


def test_expected_length_is_positive_and_never_soars() -> None:
    assert expected_seconds({}) == DEFAULT_JOB_SECONDS
    assert expected_seconds({"a": Usage(30, 2), "b": Usage(10, 2)}) == 10
    assert expected_seconds({"a": Usage(0, 2)}) > 0
    assert expected_seconds({"a": Usage(866, 1e-300)}) == DEFAULT_JOB_SECONDS


@settings(deadline=None)
@given(CANDIDATES, HELD, USAGE, st.integers(-1, 50), st.sampled_from([0.0, 1.0, 600.0]), st.randoms())
def test_any_input(
    jobs: list[Candidate], held: list[Held], usage: dict[str, Usage], slots: int, aging: float, rnd: object
) -> None:
    ids = rank(jobs, held, usage, slots_free=slots, aging=aging)
    assert len(ids) == len(set(ids)) == max(0, min(slots, len(jobs)))
    assert set(ids) <= {job.job_id for job in jobs}
    for name in {job.group for job in jobs}:
        ordered = [job.job_id for job in order_in_group([job for job in jobs if job.group == name], aging)]
        mine = [job_id for job_id in ids if job_id in set(ordered)]
        assert mine == ordered[: len(mine)]
    rnd.shuffle(jobs)  # type: ignore[attr-defined]
    rnd.shuffle(held)  # type: ignore[attr-defined]
    assert rank(jobs, held, usage, slots_free=slots, aging=aging) == ids


@settings(deadline=None)
@given(st.dictionaries(NAMES, st.tuples(st.integers(1, 1000), st.integers(1, 30)), min_size=1), st.integers(6, 60))
def test_quotas_serve_everybody_and_stay_within_one_of_the_exact_share(
    groups: dict[str, tuple[int, int]], slots: int
) -> None:
    share = quotas(groups, slots)
    assert sum(share.values()) == min(slots, sum(jobs for _, jobs in groups.values()))
    assert all(1 <= share[name] <= jobs for name, (_, jobs) in groups.items())
    total = sum(weight for weight, _ in groups.values())
    exact = {name: slots * weight / total for name, (weight, _) in groups.items()}
    if all(jobs >= exact[name] + 1 for name, (_, jobs) in groups.items()) and min(exact.values()) >= 1:
        assert all(abs(share[name] - exact[name]) <= 1 for name in groups)
