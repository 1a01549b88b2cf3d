"""The kill ladder as a table of decisions: what is done when, for every reason, grace and rhythm of calls."""

import signal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.supervisor.kill_ladder import (
    LADDER,
    Action,
    Ladder,
    Reason,
    Step,
    next_actions,
    next_due,
    reaped,
    stop,
)
from sqljobs.worker_runtime.stop_request import ENDS, StopRequest

ALL = (Action.ASK, Action.DUMP, Action.TERMINATE, Action.KILL)
graces = st.floats(min_value=0.01, max_value=3600)
reasons = st.sampled_from(Reason)


def test_a_running_child_is_left_alone() -> None:
    assert next_actions(Ladder(), 1e9, 5.0) == (Ladder(), ())
    assert next_due(Ladder(), 5.0) is None


def test_asked_and_dumped_at_once_terminated_at_half_and_killed_at_the_end() -> None:
    ladder = stop(Ladder(), Reason.TIMEOUT, 100.0)
    assert next_due(ladder, 5.0) == 100.0
    ladder, actions = next_actions(ladder, 100.0, 5.0)
    assert (ladder.step, actions) == (Step.DUMPED, (Action.ASK, Action.DUMP))
    assert next_due(ladder, 5.0) == 102.5
    assert next_actions(ladder, 102.4, 5.0) == (ladder, ())
    ladder, actions = next_actions(ladder, 102.5, 5.0)
    assert (ladder.step, actions) == (Step.TERMINATED, (Action.TERMINATE,))
    assert next_due(ladder, 5.0) == 105.0
    ladder, actions = next_actions(ladder, 105.0, 5.0)
    assert (ladder.step, actions) == (Step.KILLED, (Action.KILL,))
    assert next_actions(ladder, 1e9, 5.0) == (ladder, ())
    assert next_due(ladder, 5.0) is None


def test_a_late_call_makes_up_for_what_was_missed_unless_it_is_time_to_kill() -> None:
    ladder = stop(Ladder(), Reason.CANCEL, 7.0)
    assert next_actions(ladder, 10.0, 5.0)[1] == (Action.ASK, Action.DUMP, Action.TERMINATE)
    assert next_actions(ladder, 99.0, 5.0)[1] == (Action.KILL,)
    assert next_actions(ladder, 7.0, 0.0)[1] == (Action.KILL,)


@settings(deadline=None)
@given(first=reasons, second=reasons, later=st.floats(0, 1e6))
def test_the_first_reason_and_its_grace_stay(first: Reason, second: Reason, later: float) -> None:
    ladder = stop(Ladder(), first, 10.0)
    assert stop(ladder, second, 10.0 + later) == ladder


@settings(deadline=None)
@given(first=reasons, second=reasons, begun=st.booleans(), later=st.floats(0, 100), grace=graces)
def test_at_once_kills_at_once_whatever_was_begun(
    first: Reason, second: Reason, begun: bool, later: float, grace: float
) -> None:
    ladder = Ladder()
    if begun:
        ladder, _ = next_actions(stop(ladder, first, 10.0), 10.0, grace)
    was_killed = ladder.step is Step.KILLED
    ladder = stop(ladder, second, 10.0 + later, at_once=True)
    assert ladder.reason is (first if begun else second)
    assert next_actions(ladder, 10.0 + later, grace)[1] == (() if was_killed else (Action.KILL,))


def test_at_once_does_not_wait_for_a_ladder_that_begins_later() -> None:
    waiting = stop(Ladder(), Reason.ENDED, 100.0)
    assert next_actions(stop(waiting, Reason.CANCEL, 50.0, at_once=True), 50.0, 5.0)[1] == (Action.KILL,)


@settings(deadline=None)
@given(reason=st.none() | reasons)
def test_nothing_is_done_to_a_reaped_child(reason: Reason | None) -> None:
    ladder = Ladder() if reason is None else stop(Ladder(), reason, 0.0)
    gone = reaped(ladder)
    assert (gone.step, gone.reason) == (Step.GONE, reason)
    assert next_actions(gone, 1e9, 5.0) == (gone, ())
    assert next_due(gone, 5.0) is None


@settings(deadline=None)
@given(reason=reasons, since=st.floats(0, 1e6), grace=graces, waits=st.lists(st.floats(0, 5000), max_size=12))
def test_any_rhythm_of_calls_does_each_thing_once_in_order_and_kills_on_time(
    reason: Reason, since: float, grace: float, waits: list[float]
) -> None:
    ladder, now = stop(Ladder(), reason, since), since
    done: list[Action] = []
    for wait in [0.0, *waits]:
        now += wait
        due = next_due(ladder, grace)
        ladder, actions = next_actions(ladder, now, grace)
        assert bool(actions) == (due is not None and due <= now)
        assert actions == (Action.KILL,) or Action.KILL not in actions
        done += actions
        assert (Action.KILL in done) == (now >= since + grace)
        assert (Action.TERMINATE in done or Action.KILL in done) == (now >= since + grace / 2)
    assert done == sorted(set(done), key=ALL.index)
    # Nothing is left out but by the kill.
    assert Action.KILL in done or tuple(done) == ALL[: len(done)]


def test_the_table_climbs_and_ends_with_sigkill_at_the_end_of_the_grace() -> None:
    assert all(low.share <= high.share for low, high in pairwise(LADDER))
    assert tuple(rung.action for rung in LADDER) == ALL
    assert (LADDER[0].share, LADDER[-1].share) == (0.0, 1.0)
    assert [action.signal for action in ALL] == [None, None, signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("reason", ["timeout", "memory", "shutdown", "cancel", "lease_lost"])
def test_reasons_have_the_names_of_the_contract(reason: str) -> None:
    assert Reason(reason) == reason
    request = StopRequest()
    assert not request.reason
    request.ask(reason, f"why {reason} \u00e9")
    assert (request.reason, request.outcome.cause) == (reason, ENDS[reason][0])
    assert (request.outcome.error, request.outcome.deploy) == (f"why {reason} \u00e9", reason == "shutdown")
    request.close()


def test_a_reason_of_any_length_fits() -> None:
    request = StopRequest()
    request.ask("memory", "\u00e9" * 10_000)
    assert 0 < len((request.outcome.error or "").encode()) <= 503
    request.close()
