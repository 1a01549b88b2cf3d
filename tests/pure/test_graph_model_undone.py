"""The model of graphs by itself: cancel, retry and skip."""

from tests.pure.telling import BOX, LEAF, box, leaf, put, run, states, why
from tests.schema.graph_model import Described, Model, New
from tests.schema.graph_operators import REFUSED


def test_a_cancelled_container_ends_with_the_last_that_was_in_flight() -> None:
    model = Model()
    outer, inner, flying, idle, empty = put(
        model,
        *(BOX, Described(container=True, parent=New(0)), Described(parent=New(1)), Described(parent=New(1))),
        Described(container=True, parent=New(0), edges=((New(2), "ok"),)),
    )
    model.claim(flying)
    assert model.cancel([outer]) == [outer, inner, flying, idle, empty]
    assert states(model, outer, inner, flying, idle, empty) == [
        "waiting",
        "waiting",
        "leased",
        "cancelled",
        "cancelled",
    ]
    assert model.enqueue([leaf(parent=inner)]) == REFUSED
    assert model.retry([idle]) == REFUSED, "it is being cancelled"
    model.end(flying, "done", children=[LEAF])
    assert [why(model, i) for i in (flying, inner, outer)] == [("cancelled", "cancelled", None)] * 3
    assert model.jobs[empty].result == {"done": 0, "failed": 0, "cancelled": 0}
    assert model.jobs[inner].result == {"done": 0, "failed": 0, "cancelled": 2}


def test_a_cancelled_container_in_which_one_had_failed_is_failed() -> None:
    model = Model()
    whole, bad, idle = put(model, BOX, Described(parent=New(0)), Described(parent=New(0)))
    run(model, bad, "fail")
    assert model.cancel([whole]) == [whole, idle]
    assert why(model, whole) == ("failed", "children", bad)
    assert model.cancel([idle]) == []
    assert model.cancel([whole, idle]) == REFUSED


def test_retry_reopens_what_is_around_and_what_was_closed_with_the_members_of_containers() -> None:
    model = Model()
    outer, inner, bad = put(model, BOX, Described(container=True, parent=New(0)), Described(parent=New(1)))
    (other,) = put(model, LEAF)
    closed, member, stays = put(
        model, box((outer, "ok")), Described(parent=New(0)), Described(parent=New(0), edges=((other, "ok"),))
    )
    run(model, other, "fail")
    run(model, bad, "fail")
    assert [why(model, i)[2] for i in (closed, member, stays)] == [outer, outer, other]
    assert model.retry([bad]) == {outer, inner, bad, closed, member}
    assert states(model, outer, inner, bad, closed, member, stays) == [
        *("waiting", "waiting", "ready", "blocked", "blocked", "cancelled")
    ]
    run(model, bad)
    assert states(model, outer, inner, closed, member) == ["done", "done", "waiting", "ready"]


def test_what_another_failure_closes_too_stays_closed() -> None:
    model = Model()
    one, other = put(model, LEAF, LEAF)
    (both,) = put(model, leaf((one, "ok"), (other, "ok")))
    run(model, one, "fail")
    run(model, other, "fail")
    assert model.retry([both]) == REFUSED
    assert model.retry([one]) == {one}
    assert model.retry([other]) == {other, both}


def test_retry_takes_back_what_an_end_had_satisfied_but_not_from_what_has_started() -> None:
    model = Model()
    (bad,) = put(model, LEAF)
    idle, flying, shut, opened = put(
        model, *[leaf((bad, "any"))] * 2, leaf((bad, "any")), Described(container=True, edges=((bad, "not_ok"),))
    )
    (member,) = put(model, leaf(parent=opened))
    run(model, bad, "fail")
    assert model.claim(flying) is True
    assert model.cancel([shut]) == [shut]
    model.retry([bad])
    assert states(model, idle, flying, opened, member) == ["blocked", "leased", "waiting", "ready"]
    model.retry([shut])
    assert states(model, shut) == ["blocked"], "what it waits for is open again"
    run(model, bad)
    assert states(model, idle, flying, shut, opened, member) == ["ready", "leased", "ready", "waiting", "ready"]


def test_retry_of_what_is_not_needed_any_more() -> None:
    model = Model()
    watched, notify = put(model, LEAF, Described(edges=((New(0), "not_ok"),)))
    run(model, watched, "fail")
    run(model, notify, "fail")
    model.retry([watched])
    run(model, watched)
    model.retry([notify])
    assert why(model, notify) == ("cancelled", "not_needed", None)
    assert model.retry([notify]) == REFUSED
    assert why(model, notify) == ("cancelled", "not_needed", None)


def test_an_empty_container_that_was_cancelled_is_retried_itself() -> None:
    model = Model()
    (whole,) = put(model, BOX, awaits_child=True)
    assert model.retry([whole]) == REFUSED
    model.cancel([whole])
    assert why(model, whole) == ("cancelled", "cancelled", None)
    assert model.retry([whole]) == {whole}
    assert states(model, whole) == ["waiting"]


def test_skip_makes_a_failure_good_and_reopens_what_it_had_closed() -> None:
    model = Model()
    whole, bad = put(model, BOX, Described(parent=New(0)))
    after, notify, other = put(model, leaf((bad, "ok")), leaf((bad, "not_ok")), leaf((whole, "ok")))
    run(model, bad, "fail")
    assert states(model, after, notify, other) == ["cancelled", "ready", "cancelled"]
    assert model.skip([after]) == REFUSED
    assert model.skip([whole], result=1) == REFUSED
    assert model.skip([bad], result=1) == {whole, bad, after, other}
    assert model.snapshot()[bad] == ("done", "skipped", None, 1)
    assert states(model, whole, after, other) == ["done", "ready", "ready"]
    assert why(model, notify) == ("cancelled", "not_needed", None)


def test_a_key_that_is_taken_gives_the_job_that_has_it_and_changes_nothing() -> None:
    model = Model()
    whole, held = put(model, BOX, Described(key="k", parent=New(0)))
    assert model.enqueue([Described(key="k", edges=((whole, "ok"),)), leaf((whole, "any"))]) == [held, 4]
    assert (model.jobs[held].parent, model.jobs[held].edges) == (whole, {})
    run(model, held, "fail")
    (again,) = put(model, Described(key="k"))
    assert again != held
    assert model.retry([held]) == REFUSED
    run(model, again)
    assert model.retry([held]) == {whole, held}
