"""Order and edges of the dependency graph, against slower checks that are plainly right."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.errors import CycleError
from sqljobs.schema.graph import Edge, edge_of, in_order
from sqljobs.schema.states import FINAL, State

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
    assert_is_an_order(in_order(graph, names(graph)), graph)


@few
@given(graph=graphs(cycles=True))
def test_a_graph_is_refused_exactly_when_it_has_a_cycle_and_the_circle_is_real(graph: Graph) -> None:
    if not has_cycle(graph):
        assert_is_an_order(in_order(graph, names(graph)), graph)
        return
    with pytest.raises(CycleError) as refused:
        in_order(graph, names(graph))
    circle = str(refused.value).removeprefix("these jobs wait for each other: ").split(" -> ")
    assert circle[0] == circle[-1]
    if not any(name.endswith(" more") for name in circle):
        walked = [int(name.removeprefix("job")) for name in circle]
        assert all(up in graph[position] for position, up in pairwise(walked))
        assert len(set(walked)) == len(walked) - 1


def test_what_waits_for_nothing_keeps_the_order_of_the_input() -> None:
    assert in_order([[], [], []], ["a", "b", "c"]) == [0, 1, 2]
    assert in_order([[2], [], []], ["a", "b", "c"]) == [1, 2, 0]
    assert in_order([], []) == []


def test_a_job_that_waits_for_itself_is_named() -> None:
    with pytest.raises(CycleError, match=r"^these jobs wait for each other: b -> b$"):
        in_order([[], [1]], ["a", "b"])


def test_long_chains_and_circles_need_no_recursion_and_one_line() -> None:
    size = 5000
    chain: Graph = [[at + 1] for at in range(size - 1)] + [[]]
    assert in_order(chain, names(chain)) == list(reversed(range(size)))
    chain[-1] = [0]
    with pytest.raises(CycleError) as refused:
        in_order(chain, names(chain))
    told = str(refused.value)
    assert "job0 -> job1 -> job2 -> job3 -> job4 -> 4991 more -> job4996" in told
    assert told.endswith(" -> job4999 -> job0")


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", ["ok", "any", "not_ok"])
@pytest.mark.parametrize("reason", [None, "not_needed", "dependency", "fail"])
def test_edges(kind: str, state: State, reason: str | None) -> None:
    if state not in FINAL:
        expected = Edge.OPEN
    elif kind in ("any", "not_ok") or state is State.DONE or reason == "not_needed":
        expected = Edge.SATISFIED
    else:
        expected = Edge.BROKEN
    assert edge_of(kind, state.value, reason) is expected


def test_an_unknown_state_is_not_taken_for_an_open_one() -> None:
    with pytest.raises(ValueError, match="is not a valid State"):
        edge_of("ok", "lost", None)
