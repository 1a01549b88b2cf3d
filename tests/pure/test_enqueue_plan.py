"""What one call of enqueue writes: start states against a naive model, shared keys, named specs, refused options."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.enqueue_plan import (
    Call,
    Known,
    Parent,
    Start,
    Upstream,
    first_of_key,
    levels_of,
    named_parents,
    named_positions,
    starts_of,
    upstreams_of,
)
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.graph import KINDS, Children
from sqljobs.schema.order import in_order
from sqljobs.schema.specs import Defaults, JobSpec, Request, check_request
from sqljobs.schema.states import State

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
few = settings(deadline=None, max_examples=40)
JOBS = {
    1: Known("done", None, 1),
    2: Known("failed", "error", 2),
    3: Known("running", None, 3),
    4: Known("cancelled", "dependency", 2),
    5: Known("cancelled", "not_needed", 5),
    6: Known("ready", None, 6),
}
PARENTS = {7: Parent(7, "waiting", {}, True), 8: Parent(8, "blocked", {}, True)}
BAD = {2: 2, 4: 2}  # id -> culprit
GOOD = {1, 5}


def request(spec: JobSpec, defaults: Defaults | None = None) -> Request:
    return check_request(spec, lambda _: defaults or Defaults(), lambda *_: None)


def planned(specs: list[JobSpec], existing: dict[int, int] | None = None) -> dict[int, Start]:
    requests = [request(spec) for spec in specs]
    first, taken = first_of_key(requests), existing or {}
    named = named_positions(requests)
    upstreams = upstreams_of(requests, named, first, taken)
    new = {position for position in range(len(specs)) if first[position] == position and position not in taken}
    above = named_parents(requests)
    parents = [
        PARENTS[one.parent] if isinstance(one.parent, int) else at for one, at in zip(requests, above, strict=True)
    ]
    order = in_order(named, [spec.type for spec in specs], above)
    return starts_of(NOW, Call(requests, upstreams, parents, new, JOBS), order)


@st.composite
def calls(draw: st.DrawFn) -> list[JobSpec]:
    """Specs in an order in which each names existing jobs and earlier specs only."""
    specs: list[JobSpec] = []
    for _ in range(draw(st.integers(1, 10))):
        choices: list[Any] = [*JOBS, *specs]
        ways = draw(st.dictionaries(st.sampled_from(choices), st.sampled_from(list(KINDS)), max_size=4))
        edges: dict[str, Any] = {option: [item for item, way in ways.items() if way == option] for option in KINDS}
        specs.append(JobSpec("t", **edges, run_after=draw(st.sampled_from([None, 0, 60]))))
    return specs


def naive(spec: JobSpec, born: dict[JobSpec, str]) -> tuple[str, int]:
    """How a job begins, in words, and for how many it waits: the contract, read aloud."""

    def how(item: Any) -> str:
        if isinstance(item, JobSpec):
            return {"bad": "bad", "not needed": "good"}.get(born[item], "open")
        return "good" if item in GOOD else "bad" if item in BAD else "open"

    ok, either, failed = ([how(item) for item in spec.given[option]] for option in KINDS)
    unmet = sum(how != "good" for how in ok) + sum(how == "open" for how in either + failed)
    if "bad" in ok:
        return "bad", unmet
    if failed and set(failed) == {"good"}:
        return "not needed", unmet
    if unmet:
        return "blocked", unmet
    return "scheduled" if spec.given["run_after"] == 60 else "ready", unmet


@few
@given(specs=calls())
def test_start_states_are_those_of_a_naive_model(specs: list[JobSpec]) -> None:
    starts = planned(specs)
    born: dict[JobSpec, str] = {}
    for position, spec in enumerate(specs):
        start = starts[position]
        born[spec], unmet = naive(spec, born)
        shown = {"dependency": "bad", "not_needed": "not needed", None: start.state.value}[start.reason]
        assert (shown, start.unmet) == (born[spec], unmet)
        assert (start.state is State.CANCELLED) == (start.reason is not None)
        assert (start.culprit in BAD.values()) == (start.reason == "dependency")
        wait = spec.given["run_after"]
        assert start.due == (None if wait is None else NOW + timedelta(seconds=wait))


def test_a_bad_end_reaches_down_through_the_call_with_its_root() -> None:
    specs = [JobSpec("t", after=[4])]
    for _ in range(3):
        specs.append(JobSpec("t", after=[1, specs[-1]]))
    beside = JobSpec("t", after=[3])
    starts = planned([*specs, beside])
    assert [(starts[at].state, starts[at].reason, starts[at].culprit) for at in range(4)] == [
        (State.CANCELLED, "dependency", 2)
    ] * 4
    assert (starts[4].state, starts[4].reason, starts[4].culprit) == (State.BLOCKED, None, None)


def test_equal_keys_of_one_type_share_the_first_row() -> None:
    specs = [JobSpec("t", key="k"), JobSpec("t"), JobSpec("u", key="k"), JobSpec("t", key="k"), JobSpec("t")]
    requests = [request(spec) for spec in specs]
    assert first_of_key(requests) == [0, 1, 2, 0, 4]
    last = JobSpec("v", after=[specs[3], specs[0], specs[1]])
    requests.append(request(last))
    first = first_of_key(requests)
    edges = upstreams_of(requests, named_positions(requests), first, {})
    assert list(edges[5].items()) == [(Upstream(None, 0), "ok"), (Upstream(None, 1), "ok")]
    # The key is taken by a job that stands already, and that one is also named by its id.
    edges = upstreams_of(
        [*requests[:5], request(JobSpec("v", after=[specs[3], 7]))], [[], [], [], [], [], [3]], first, {0: 7}
    )
    assert edges[5] == {Upstream(7, None): "ok"}


def test_containers_begin_and_end_with_what_is_in_them() -> None:
    empty = JobSpec("c", container=True)
    doomed = JobSpec("c", container=True, after=[2])
    inner = JobSpec("c", container=True, parent=doomed)
    waits = JobSpec("c", container=True, after=[3])
    box = JobSpec("c", container=True)
    specs = [empty, doomed, inner, JobSpec("t", parent=inner), waits, JobSpec("t", parent=waits), box]
    specs += [JobSpec("t", parent=box), JobSpec("t", parent=box, after=[4]), JobSpec("t", after=[empty])]
    specs += [JobSpec("t", after=[box]), JobSpec("t", parent=7), JobSpec("t", parent=8)]
    starts = planned(specs)
    assert [(starts[at].state.value, starts[at].culprit, int(starts[at].gated)) for at in range(len(specs))] == [
        ("done", None, 0),
        *[("cancelled", 2, 0)] * 3,
        ("blocked", None, 0),
        ("blocked", None, 1),
        ("waiting", None, 0),
        ("ready", None, 0),
        ("cancelled", 2, 0),
        ("ready", None, 0),
        ("blocked", None, 0),
        ("ready", None, 0),
        ("blocked", None, 1),
    ]
    assert [starts[at].children for at in (1, 2, 4, 6)] == [
        Children(cancelled=1),
        Children(cancelled=1),
        Children(open=1),
        Children(open=1, cancelled=1),
    ]


def test_parents_are_written_before_their_members() -> None:
    inner = JobSpec("c", container=True)
    specs = [JobSpec("t", parent=inner), JobSpec("t"), inner, JobSpec("t", parent=7)]
    box = JobSpec("c", container=True)
    specs[2] = inner = JobSpec("c", container=True, parent=box)
    specs[0] = JobSpec("t", parent=inner)
    specs.append(box)
    requests = [request(spec) for spec in specs]
    parents = [PARENTS[7] if one.parent == 7 else at for one, at in zip(requests, named_parents(requests), strict=True)]
    order = in_order([[], [4], [], [], []], ["t"] * 5, named_parents(requests))
    assert levels_of(Call(requests, [{}] * 5, parents, set(range(5)), {}), order) == [[3, 4, 1], [2], [0]]


@pytest.mark.parametrize("option", ["run_after", "max_attempts", "timeout"])
def test_a_container_takes_no_options_of_what_runs(option: str) -> None:
    with pytest.raises(InvalidJob, match=f"the container 'c' never runs: give {option} to its members"):
        request(JobSpec("c", container=True).options(**{option: 1}))
    with pytest.raises(InvalidJob, match="give args to its members"):
        request(JobSpec("c", {"n": 1}, container=True))


@pytest.mark.parametrize(
    ("holder", "state", "unmet"), [(1, State.READY, 0), (2, State.CANCELLED, 1), (6, State.BLOCKED, 1)]
)
def test_waiting_for_a_taken_key_is_waiting_for_its_holder(holder: int, state: State, unmet: int) -> None:
    keyed = JobSpec("t", key="k")
    start = planned([keyed, JobSpec("t", after=[keyed])], {0: holder})[1]
    assert (start.state, start.unmet) == (state, unmet)


def test_a_spec_that_is_not_in_the_call_or_twice_in_it_is_refused() -> None:
    a = JobSpec("a")
    waits = JobSpec("b", after=[a])
    with pytest.raises(
        InvalidJob, match=r"^'b' waits for a spec of type 'a' that is not in this call .options.. makes"
    ):
        named_positions([request(waits)])
    with pytest.raises(InvalidJob, match="that is not in this call"):
        named_positions([request(a.options(weight=2)), request(waits)])
    with pytest.raises(InvalidJob, match="that stands more than once in this call"):
        named_positions([request(a), request(a), request(waits)])
    assert named_positions([request(a), request(waits), request(a.options())]) == [[], [0], []]


def test_unknown_options_name_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"^unknown option 'wieght' .did you mean 'weight'"):
        JobSpec("t", wieght=2)
    with pytest.raises(TypeError, match=r"^unknown option 'zzz'$"):
        JobSpec("t").options(zzz=1)


@pytest.mark.parametrize("name", ["memory", "on_failed", "timeout", "uses"])
def test_none_is_not_given(name: str) -> None:
    assert request(JobSpec("t").options(**{name: None})).given == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("weight", value) for value in (0, 1.0, True, "1")),
        *(("priority", value) for value in (1001, -1001, "high")),
        *(("max_attempts", value) for value in (0, -1, False)),
        *(("timeout", value) for value in (-1, "soon")),
        *(("run_after", value) for value in (datetime(2026, 1, 1), "2026-01-01", -1)),
        *(("on_conflict", value) for value in ("riase", True)),
        *(("key_for", value) for value in ("evr", 1)),
        *((name, value) for name in ("key", "group") for value in ("", " a", "a\0", "x" * 201, 7)),
        *(("after", value) for value in (5, "12", {1: 2}, b"1", [True], [0], [-1], [2**63], ["1"], [1.0], [None])),
    ],
)
def test_bad_values_are_refused_in_one_line_that_names_the_option(name: str, value: object) -> None:
    with pytest.raises(InvalidJob, match=rf"^{name}\b[^\n]+$"):
        request(JobSpec("t").options(**{name: value}))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (JobSpec(" t"), "^type ' t' has a space"),
        (JobSpec("t", [1]), "^args of 't' must be a mapping of names to values, not list$"),  # type: ignore[arg-type]
        (JobSpec("t", {"a": float("nan")}), "^args"),
        ("t", "^expected a JobSpec or a type name, not str$"),
    ],
)
def test_bad_specs(spec: Any, says: str) -> None:
    with pytest.raises(InvalidJob, match=says):
        request(spec)


def test_the_jobs_own_values_come_before_the_handlers() -> None:
    defaults = Defaults("reports", 3, 4, 7, 60.0)
    bare = request(JobSpec("t", weight=None), defaults)
    assert (bare.group, bare.weight, bare.priority, bare.max_attempts, bare.timeout) == ("reports", 3, 4, 7, 60.0)
    own = request(JobSpec("t", group="g", weight=1, priority=0, max_attempts=1, timeout=0), defaults)
    assert (own.group, own.weight, own.priority, own.max_attempts, own.timeout) == ("g", 1, 0, 1, 0.0)
    assert (bare.given, own.given) == ((), ("max_attempts", "timeout"))
    assert (bare.on_conflict, bare.key_for, bare.key) == ("return", "open", None)
    assert (bare.run_after, bare.waits_for) == (None, {})


def test_options_make_a_new_spec_and_leave_the_old_one() -> None:
    a = JobSpec("t", {"n": 1}, weight=2)
    b = a.options(weight=3, key="k")
    assert (a.given, b.given) == ({"weight": 2}, {"weight": 3, "key": "k"})
    assert (b.type, b.args) == ("t", {"n": 1})
    assert a != a.options()
