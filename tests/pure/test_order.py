"""The order in which jobs begin and end, and circles, against slower checks that are plainly right."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.errors import CycleError
from sqljobs.schema.order import Moment, comes_after, in_order

few = settings(deadline=None, max_examples=40)
Graph = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn, *, cycles: bool) -> Graph:
    """Upstreams by position; without cycles they follow a hidden random order. Duplicates are allowed."""
    size = draw(st.integers(0, 12))
    hidden = draw(st.permutations(range(size)))
    graph: Graph = [[] for _ in range(size)]
    for rank, position in enumerate(hidden):
        allowed = list(range(size)) if cycles else hidden[:rank]
        if allowed:
            graph[position] = draw(st.lists(st.sampled_from(allowed), max_size=3))
    return graph


def names(graph: Graph) -> list[str]:
    return [f"job{position}" for position in range(len(graph))]


def begins(graph: Graph) -> list[int]:
    """The positions in the order in which they begin; each ends right after, or when its upstreams allow it."""
    return [moment.position for moment in in_order(graph, names(graph)) if not moment.is_end]


def has_cycle(graph: Graph) -> bool:
    """By taking away, one at a time, what waits for nothing that is left."""
    left = set(range(len(graph)))
    while free := {position for position in left if not left & set(graph[position])}:
        left.remove(min(free))
    return bool(left)


def assert_is_an_order(order: list[int], graph: Graph) -> None:
    assert sorted(order) == list(range(len(graph)))
    at = {position: place for place, position in enumerate(order)}
    assert all(at[up] < at[position] for position, ups in enumerate(graph) for up in ups)


@few
@given(graph=graphs(cycles=False))
def test_every_job_comes_after_what_it_waits_for(graph: Graph) -> None:
    assert_is_an_order(begins(graph), graph)


@few
@given(graph=graphs(cycles=True))
def test_a_graph_is_refused_exactly_when_it_has_a_cycle_and_the_circle_is_real(graph: Graph) -> None:
    if not has_cycle(graph):
        assert_is_an_order(begins(graph), graph)
        return
    with pytest.raises(CycleError) as refused:
        begins(graph)
    circle = str(refused.value).removeprefix("these jobs wait for each other: ").split(" -> ")
    assert circle[0] == circle[-1]
    if not any(name.endswith(" more") for name in circle):
        walked = [int(name.removeprefix("job")) for name in circle]
        assert all(up in graph[position] for position, up in pairwise(walked))
        assert len(set(walked)) == len(walked) - 1


def test_what_waits_for_nothing_keeps_the_order_of_the_input() -> None:
    assert begins([[], [], []]) == [0, 1, 2]
    assert begins([[2], [], []]) == [1, 2, 0]
    assert begins([]) == []


def test_a_job_that_waits_for_itself_is_named() -> None:
    with pytest.raises(CycleError, match=r"^these jobs wait for each other: b -> b$"):
        in_order([[], [1]], ["a", "b"])


def test_long_chains_and_circles_need_no_recursion_and_one_line() -> None:
    size = 5000
    chain: Graph = [[at + 1] for at in range(size - 1)] + [[]]
    assert begins(chain) == list(reversed(range(size)))
    chain[-1] = [0]
    with pytest.raises(CycleError) as refused:
        begins(chain)
    told = str(refused.value)
    assert "job0 -> job1 -> job2 -> job3 -> job4 -> 4991 more -> job4996" in told
    assert told.endswith(" -> job4999 -> job0")


@st.composite
def families(draw: st.DrawFn) -> tuple[Graph, list[int | None]]:
    """Upstreams and parents of some jobs, circles among them allowed."""
    size = draw(st.integers(1, 8))
    positions = st.integers(0, size - 1)
    graph = [draw(st.lists(positions, max_size=2)) for _ in range(size)]
    return graph, [draw(st.none() | positions) for _ in range(size)]


def plays_out(graph: Graph, parents: list[int | None]) -> bool:
    """Whether all begin and end, when each does so as soon as it may."""
    begun: set[int] = set()
    ended: set[int] = set()
    while True:
        can_begin = {
            at for at, ups in enumerate(graph) if set(ups) <= ended and (parents[at] is None or parents[at] in begun)
        } - begun
        can_end = {
            at for at in begun if all(at != parent or kid in ended for kid, parent in enumerate(parents))
        } - ended
        if not can_begin and not can_end:
            return len(ended) == len(graph)
        begun |= can_begin
        ended |= can_end


@settings(deadline=None, max_examples=200)
@given(families())
def test_with_containers_a_circle_is_what_can_never_end(family: tuple[Graph, list[int | None]]) -> None:
    graph, parents = family
    if not plays_out(graph, parents):
        with pytest.raises(CycleError):
            in_order(graph, names(graph), parents)
        return
    order = in_order(graph, names(graph), parents)
    at = {moment: place for place, moment in enumerate(order)}
    assert len(at) == 2 * len(graph)
    for position, ups in enumerate(graph):
        assert at[Moment(position, False)] < at[Moment(position, True)]
        assert all(at[Moment(up, True)] < at[Moment(position, False)] for up in ups)
        parent = parents[position]
        if parent is not None:
            assert at[Moment(parent, False)] < at[Moment(position, False)]
            assert at[Moment(position, True)] < at[Moment(parent, True)]
        earlier = comes_after(graph, parents, [position])
        assert position in earlier
        assert set(ups) <= earlier


def test_a_member_that_waits_for_its_container_is_named() -> None:
    with pytest.raises(CycleError, match=r"^these jobs wait for each other: box -> member -> box$"):
        in_order([[], [0]], ["box", "member"], [None, 0])
    with pytest.raises(CycleError, match=r"box -> box$"):
        in_order([[]], ["box"], [0])
