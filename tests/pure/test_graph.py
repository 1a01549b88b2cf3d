"""What ends make of edges and of containers: every case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.graph import Children, Edge, edge_of
from sqljobs.schema.states import FINAL, State


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


ENDS = [("done", None), ("failed", "error"), ("cancelled", "cancelled"), ("cancelled", "not_needed")]


@given(st.lists(st.sampled_from(ENDS)), st.booleans())
def test_a_container_ends_as_its_members_do(ends: list[tuple[str, str | None]], cancel_requested: bool) -> None:
    children = Children(open=len(ends))
    for end in ends:
        children = children.with_end(*end)
    assert (children.open, children.ended) == (0, len(ends))
    bad = {end for end in ends if end != ("cancelled", "not_needed")} - {("done", None)}
    expected = State.CANCELLED if bad or cancel_requested else State.DONE
    if ("failed", "error") in bad:
        expected = State.FAILED
    assert children.end(cancel_requested=cancel_requested) is expected
    for end in ends:
        children = children.without_end(*end)
    assert children == Children(open=len(ends))
