"""What is chosen is what fair share ranks, of what may start, and no slot is left to those who may not."""

from hypothesis import given
from hypothesis import strategies as st

from sqljobs.supervisor.choosing import choose
from sqljobs.supervisor.fair_share import Candidate, Held, Usage, rank

lanes = st.sampled_from([("g", "a"), ("g", "b"), ("h", "a"), ("h", "b"), ("i", "a")])
jobs = st.lists(st.tuples(lanes, st.integers(1, 3), st.floats(0, 1000)), max_size=25).map(
    lambda listed: [
        Candidate(number, lane[0], weight, 0, at, lane) for number, (lane, weight, at) in enumerate(listed, start=1)
    ]
)
held = st.lists(st.builds(Held, st.sampled_from("ghi"), st.floats(0, 100)), max_size=4)
usage = st.dictionaries(st.sampled_from("ghi"), st.builds(Usage, st.floats(0, 1000), st.floats(0, 10)), max_size=3)


@given(jobs, held, usage, st.integers(0, 8))
def test_without_limits_it_is_the_ranking(
    candidates: list[Candidate], flying: list[Held], used: dict[str, Usage], slots: int
) -> None:
    chosen = choose(candidates, flying, used, slots_free=slots, aging=600, weights={}, admit=lambda _: True)
    assert chosen == rank(candidates, flying, used, slots_free=slots)


@given(jobs, held, usage, st.integers(0, 8), st.dictionaries(st.sampled_from("ab"), st.integers(0, 5), max_size=2))
def test_no_slot_is_idle_while_a_job_may_run(
    candidates: list[Candidate], flying: list[Held], used: dict[str, Usage], slots: int, limits: dict[str, int]
) -> None:
    left = dict(limits)  # of the second part of a lane; without a limit there is no end of it

    def admit(job: Candidate) -> bool:
        assert isinstance(job.lane, tuple)
        name = job.lane[1]
        if name in left and left[name] == 0:
            return False
        left[name] = left.get(name, 1000) - 1
        return True

    chosen = choose(candidates, flying, used, slots_free=slots, aging=600, weights={}, admit=admit)
    assert len(chosen) == len(set(chosen)) <= slots
    if len(chosen) < slots:
        rest = [job for job in candidates if job.job_id not in chosen]
        assert not any(left.get(job.lane[1], 1) for job in rest if isinstance(job.lane, tuple))


def test_what_one_group_leaves_goes_to_the_others() -> None:
    blocked = [Candidate(number, "big", 5, 0, 0.0, "full") for number in range(1, 6)]
    others = [Candidate(10, "small", 1, 0, 9.0, "free"), Candidate(11, "big", 5, 0, 9.0, "free")]
    chosen = choose(
        [*blocked, *others], [], {}, slots_free=4, aging=600, weights={}, admit=lambda job: job.lane == "free"
    )
    assert sorted(chosen) == [10, 11]


def test_a_weight_that_is_set_counts_from_the_next_round() -> None:
    candidates = [Candidate(number, "gh"[number % 2], 1, 0, float(number)) for number in range(40)]
    even = choose(candidates, [], {}, slots_free=8, aging=600, weights={}, admit=lambda _: True)
    heavy = choose(candidates, [], {}, slots_free=8, aging=600, weights={"g": 3}, admit=lambda _: True)
    assert [sum(job % 2 == 0 for job in chosen) for chosen in (even, heavy)] == [4, 6]
