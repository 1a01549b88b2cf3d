"""The kill ladder as a table of decisions: what is sent when, for every reason, grace and rhythm of calls."""

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
    next_action,
    next_due,
    reaped,
    stop,
)

TERM, KILL = Action(signal.SIGTERM), Action(signal.SIGKILL)
graces = st.floats(min_value=0.01, max_value=3600)
reasons = st.sampled_from(Reason)


def test_a_running_child_is_left_alone() -> None:
    assert next_action(Ladder(), 1e9, 5.0) == (Ladder(), None)
    assert next_due(Ladder(), 5.0) is None


def test_terminated_at_once_and_killed_when_the_grace_is_over() -> None:
    ladder = stop(Ladder(), Reason.TIMEOUT, 100.0)
    assert next_due(ladder, 5.0) == 100.0
    ladder, action = next_action(ladder, 100.0, 5.0)
    assert (ladder.step, action) == (Step.TERMINATED, TERM)
    assert next_due(ladder, 5.0) == 105.0
    assert next_action(ladder, 104.9, 5.0) == (ladder, None)
    ladder, action = next_action(ladder, 105.0, 5.0)
    assert (ladder.step, action) == (Step.KILLED, KILL)
    assert next_action(ladder, 1e9, 5.0) == (ladder, None)
    assert next_due(ladder, 5.0) is None


def test_no_grace_and_a_late_call_kill_at_once() -> None:
    assert next_action(stop(Ladder(), Reason.CANCEL, 7.0), 7.0, 0.0)[1] == KILL
    assert next_action(stop(Ladder(), Reason.CANCEL, 7.0), 99.0, 5.0)[1] == KILL


@settings(deadline=None)
@given(first=reasons, second=reasons, later=st.floats(0, 1e6))
def test_the_first_reason_and_its_grace_stay(first: Reason, second: Reason, later: float) -> None:
    ladder = stop(Ladder(), first, 10.0)
    assert stop(ladder, second, 10.0 + later) == ladder


@settings(deadline=None)
@given(reason=st.none() | reasons)
def test_nothing_is_sent_to_a_reaped_child(reason: Reason | None) -> None:
    ladder = Ladder() if reason is None else stop(Ladder(), reason, 0.0)
    gone = reaped(ladder)
    assert (gone.step, gone.reason) == (Step.GONE, reason)
    assert next_action(gone, 1e9, 5.0) == (gone, None)
    assert next_due(gone, 5.0) is None


@settings(deadline=None)
@given(reason=reasons, since=st.floats(0, 1e6), grace=graces, waits=st.lists(st.floats(0, 5000), max_size=12))
def test_any_rhythm_of_calls_sends_each_signal_once_in_order_and_kill_on_time(
    reason: Reason, since: float, grace: float, waits: list[float]
) -> None:
    ladder, now, sent = stop(Ladder(), reason, since), since, []
    for wait in [0.0, *waits]:
        now += wait
        due = next_due(ladder, grace)
        ladder, action = next_action(ladder, now, grace)
        assert (action is not None) == (due is not None and due <= now)
        if action is not None:
            sent.append(action)
        assert (KILL in sent) == (now >= since + grace)
    assert sent in ([TERM], [TERM, KILL], [KILL])


def test_the_table_climbs_and_ends_with_sigkill_at_the_end_of_the_grace() -> None:
    assert all(low.share < high.share for low, high in pairwise(LADDER))
    assert (LADDER[0].share, LADDER[-1].share, LADDER[-1].action) == (0.0, 1.0, KILL)


@pytest.mark.parametrize("reason", ["timeout", "shutdown", "cancel", "lease_lost"])
def test_reasons_have_the_names_of_the_contract(reason: str) -> None:
    assert Reason(reason) == reason
