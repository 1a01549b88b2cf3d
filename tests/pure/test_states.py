"""The transition table against a copy written by hand from the contract, and what any path through it may do."""

import itertools

import pytest

from sqljobs.schema.states import (
    FINAL,
    IN_FLIGHT,
    OPEN,
    TRANSITIONS,
    UNCLAIMED,
    Event,
    IllegalMove,
    State,
    diagram,
    transition,
)

TABLE = {
    "enqueue": ("", "blocked scheduled ready waiting cancelled"),
    "unblock": ("blocked", "scheduled ready waiting"),
    "doom": ("blocked", "cancelled"),
    "due": ("scheduled", "ready"),
    "claim": ("ready", "leased"),
    "start": ("leased", "running"),
    "succeed": ("running", "done waiting"),
    "fail": ("leased running", "scheduled ready failed"),
    "snooze": ("running", "scheduled ready"),
    "release": ("leased running", "ready scheduled"),
    "reclaim": ("leased running", "scheduled ready failed cancelled"),
    "roll_up": ("waiting", "done failed cancelled"),
    "cancel": ("blocked scheduled ready leased running waiting", "cancelled"),
    "retry": ("failed cancelled", "blocked waiting"),
    "reopen": ("failed cancelled ready scheduled", "blocked waiting"),
    "skip": ("failed", "done"),
}


def states(words: str) -> set[State]:
    return {State(word) for word in words.split()}


def moves(*, without: str = "") -> set[tuple[State, State]]:
    return {
        pair
        for row in TRANSITIONS
        if row.event not in without.split()
        for pair in itertools.product(row.sources, row.targets)
    }


def test_one_row_for_each_event() -> None:
    assert [row.event for row in TRANSITIONS] == list(Event)
    assert {event.value for event in Event} == TABLE.keys()


@pytest.mark.parametrize("event", Event)
def test_an_event_reaches_its_targets_and_nothing_else(event: Event) -> None:
    sources, targets = (states(words) for words in TABLE[event])
    for target in State:
        if target in targets:
            row = transition(event, target)
            assert row.event is event
            assert row.sources == sources
            assert row.targets == targets
            assert row.made_by
        else:
            with pytest.raises(IllegalMove, match=f"^{event} cannot lead to {target}$"):
                transition(event, target)


def test_the_sets() -> None:
    assert states("done failed cancelled") == FINAL
    assert states("blocked scheduled ready leased running waiting") == OPEN
    assert states("leased running") == IN_FLIGHT
    assert states("blocked scheduled ready") == UNCLAIMED


def test_only_an_operator_takes_a_job_out_of_a_final_state() -> None:
    assert {row.event for row in TRANSITIONS if row.sources & FINAL} == {Event.RETRY, Event.REOPEN, Event.SKIP}


def test_work_begins_only_by_a_claim_of_a_ready_job() -> None:
    entering = {pair for pair in moves() if pair[1] in IN_FLIGHT and pair[0] not in IN_FLIGHT}
    assert entering == {(State.READY, State.LEASED)}
    assert {pair for pair in moves() if pair[1] is State.RUNNING} == {(State.LEASED, State.RUNNING)}


def test_every_open_state_leads_to_every_end_without_an_operator() -> None:
    steps = moves(without="retry reopen skip cancel")
    for start in OPEN:
        reached = {start}
        while more := {target for source, target in steps if source in reached} - reached:
            reached |= more
        assert reached >= FINAL, start


def test_the_diagram_draws_each_move_once() -> None:
    lines = diagram().splitlines()
    drawn = [line.strip() for line in lines if ": " in line]
    wanted = {
        f"{source} --> {target}: {event}"
        for event, (sources, targets) in TABLE.items()
        for source in (sources.split() or ["[*]"])
        for target in targets.split()
    }
    assert len(drawn) == len(wanted)
    assert set(drawn) == wanted
    assert {line.strip() for line in lines if line.endswith("[*]")} == {f"{state} --> [*]" for state in FINAL}
