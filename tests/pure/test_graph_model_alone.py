"""The model of graphs by itself: what the definition says of beginnings and ends where one could err."""

import pytest

from tests.pure.telling import BOX, LEAF, box, leaf, put, run, states, why
from tests.schema.graph_model import Described, Model, New
from tests.schema.graph_operators import REFUSED


def test_a_container_rolls_up_its_members_and_counts_them() -> None:
    model = Model()
    whole, *parts = put(model, BOX, *[Described(parent=New(0))] * 3)
    for part, cause in zip(parts, ("done", "fail", "cancelled"), strict=True):
        assert states(model, whole) == ["waiting"]
        run(model, part, cause)
    assert model.snapshot()[whole] == ("failed", "children", parts[1], {"done": 1, "failed": 1, "cancelled": 1})


def test_an_empty_container_ends_at_once_where_nothing_blocks_it_and_one_that_awaits_a_child_does_not() -> None:
    model = Model()
    first, empty = put(model, LEAF, BOX)
    (blocked,) = put(model, box((first, "ok")))
    (awaiting,) = put(model, BOX, awaits_child=True)
    assert states(model, empty, blocked, awaiting) == ["done", "blocked", "waiting"]
    run(model, first)
    assert states(model, blocked, awaiting) == ["done", "waiting"]
    assert model.jobs[blocked].result == {"done": 0, "failed": 0, "cancelled": 0}
    (member,) = put(model, leaf(parent=awaiting))
    run(model, member)
    assert states(model, awaiting) == ["done"]


def test_a_child_that_is_cancelled_at_birth_is_a_child_that_the_container_has_had() -> None:
    model = Model()
    (bad,) = put(model, LEAF)
    run(model, bad, "fail")
    (awaiting,) = put(model, BOX, awaits_child=True)
    (member,) = put(model, leaf((bad, "ok"), parent=awaiting))
    assert why(model, member) == ("cancelled", "dependency", bad)
    assert why(model, awaiting) == ("cancelled", "children", member)


def test_a_gate_holds_what_stands_deep_inside() -> None:
    model = Model()
    (before,) = put(model, LEAF)
    outer, _, deep, free = put(
        model, box((before, "any")), Described(container=True, parent=New(0)), Described(parent=New(1)), LEAF
    )
    assert states(model, outer, deep, free) == ["blocked", "blocked", "ready"]
    run(model, before, "fail")
    assert states(model, outer, deep) == ["waiting", "ready"]


def test_a_doomed_container_takes_all_inside_with_it_and_has_no_result() -> None:
    model = Model()
    (root,) = put(model, LEAF)
    (middle,) = put(model, leaf((root, "ok")))
    ids = put(model, box((middle, "ok")), Described(container=True, parent=New(0)), Described(parent=New(1)))
    (below,) = put(model, leaf((ids[2], "ok")))
    run(model, root, "fail")
    for job_id in (middle, *ids, below):
        assert model.snapshot()[job_id] == ("cancelled", "dependency", root, None)


def test_a_container_that_is_not_needed_and_all_inside_are_good_ends() -> None:
    model = Model()
    (watched,) = put(model, LEAF)
    notify, member = put(model, box((watched, "not_ok")), Described(parent=New(0)))
    follow, second = put(model, leaf((member, "ok"), (notify, "ok")), leaf((notify, "not_ok")))
    run(model, watched)
    assert [why(model, i) for i in (notify, member, second)] == [("cancelled", "not_needed", None)] * 3
    assert states(model, follow) == ["ready"]


def test_a_member_that_was_not_needed_counts_as_cancelled_and_makes_nothing_cancelled() -> None:
    model = Model()
    (whole,) = put(model, BOX, awaits_child=True)
    part, watch = put(model, leaf(parent=whole), Described(parent=whole, edges=((New(0), "not_ok"),)))
    run(model, part)
    assert why(model, watch) == ("cancelled", "not_needed", None)
    assert model.snapshot()[whole] == ("done", None, None, {"done": 1, "failed": 0, "cancelled": 1})


def test_the_culprit_of_what_waits_for_a_failed_container_is_the_container() -> None:
    model = Model()
    whole, part = put(model, BOX, Described(parent=New(0)))
    first, last = put(model, leaf((whole, "ok")), Described(edges=((New(0), "ok"),)))
    run(model, part, "fail")
    assert [why(model, i)[2] for i in (whole, first, last)] == [part, whole, whole]


def test_at_birth_a_broken_edge_says_more_than_an_awaited_failure_that_cannot_come() -> None:
    model = Model()
    good, bad = put(model, LEAF, LEAF)
    (mixed,) = put(model, leaf((good, "not_ok"), (bad, "ok")))
    run(model, good)
    assert why(model, mixed) == ("cancelled", "not_needed", None), "the first that is certain decides"
    run(model, bad, "fail")
    (late,) = put(model, leaf((good, "not_ok"), (bad, "ok")))
    assert why(model, late) == ("cancelled", "dependency", bad)


@pytest.mark.parametrize("end", ["done", "fail"])
def test_a_job_that_spawns_ends_with_its_children_and_keeps_its_own_result(end: str) -> None:
    model = Model()
    parent, follow = put(model, LEAF, Described(edges=((New(0), "ok"),)))
    children = run(model, parent, children=(LEAF, Described(edges=((New(0), "any"),))))
    assert states(model, parent, *children, follow) == ["waiting", "ready", "blocked", "blocked"]
    run(model, children[0], end)
    run(model, children[1])
    if end == "done":
        assert model.snapshot()[parent] == ("done", None, None, parent)
        assert states(model, follow) == ["ready"]
    else:
        assert model.snapshot()[parent] == ("failed", "children", children[0], 1)
        assert model.retry([parent]) == {parent, children[0], follow}
        run(model, children[0])
        assert model.snapshot()[parent] == ("done", None, None, parent)


def test_what_fails_spawns_nothing_and_takes_along_what_it_had_enqueued_below_itself() -> None:
    model = Model()
    (parent,) = put(model, LEAF)
    assert model.enqueue([leaf(parent=parent)]) == REFUSED
    assert model.claim(parent) is True
    (own,) = put(model, leaf(parent=parent), within=parent)
    assert states(model, parent, own) == ["leased", "ready"], "it gates nothing"
    assert model.end(parent, "fail", children=[LEAF]) == []
    assert why(model, own) == ("cancelled", "cancelled", None)
    assert len(model.jobs) == 2


def test_nothing_may_wait_for_what_it_is_in_or_for_what_waits_for_that() -> None:
    model = Model()
    (whole,) = put(model, BOX, awaits_child=True)
    (after,) = put(model, leaf((whole, "any")))
    assert model.enqueue([leaf((whole, "ok"), parent=whole)]) == REFUSED
    assert model.enqueue([leaf((after, "any"), parent=whole)]) == REFUSED
    assert model.enqueue([box(parent=whole), Described(parent=New(0), edges=((after, "ok"),))]) == REFUSED
    assert model.enqueue([Described(container=True, edges=((New(1), "ok"),)), Described(parent=New(0))]) == REFUSED
    one = Described(container=True, edges=((New(3), "ok"),))
    two = Described(container=True, edges=((New(1), "ok"),))
    members = [Described(parent=New(0)), two, Described(parent=New(2))]
    assert model.enqueue([one, *members]) == REFUSED, "each member is gated by what waits for the other"
    assert len(model.jobs) == 2
    assert model.enqueue([leaf(parent=whole), leaf((whole, "ok"))]) == [3, 4]


def test_what_was_seen_decides_between_things_that_are_certain_at_once_and_is_checked() -> None:
    model = Model()
    whole, one, other = put(model, BOX, Described(parent=New(0)), Described(parent=New(0)))
    (mixed,) = put(model, leaf((whole, "ok"), (other, "not_ok")))
    run(model, one, "fail")
    model.seen = {mixed: ("dependency", whole)}
    run(model, other)
    assert why(model, mixed) == ("cancelled", "dependency", whole)
    assert model.unfounded() == []
    (late,) = put(model, leaf((whole, "ok"), (other, "not_ok")))
    assert model.unfounded() == []
    model.seen = {late + 1: ("not_needed", None)}
    put(model, leaf((whole, "ok"), (other, "not_ok")))
    assert len(model.unfounded()) == 1
