"""A supervisor's way out: SIGTERM, a second one, drain, and both, on a clock that the test holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.supervisor.shutdown import Shutdown

asks = st.tuples(st.floats(0, 100), st.none() | st.floats(0, 60))


def test_running_until_asked() -> None:
    shutdown = Shutdown()
    assert (shutdown.state, shutdown.begun, shutdown.next_due()) == ("running", False, None)
    assert not shutdown.must_kill(1e9)


def test_children_get_the_grace_and_are_killed_once() -> None:
    shutdown = Shutdown()
    shutdown.ask(100.0, 30.0)
    assert (shutdown.state, shutdown.begun, shutdown.next_due()) == ("draining", True, 130.0)
    assert not shutdown.must_kill(129.9)
    assert shutdown.must_kill(130.0)
    assert (shutdown.state, shutdown.next_due()) == ("stopping", None)
    assert not shutdown.must_kill(131.0)


def test_a_second_ask_hurries() -> None:
    shutdown = Shutdown()
    shutdown.ask(100.0, 30.0)
    shutdown.ask(105.0, 30.0)
    assert shutdown.next_due() == 105.0
    assert shutdown.must_kill(105.0)


def test_a_drain_has_no_deadline_and_a_later_ask_gives_it_one() -> None:
    shutdown = Shutdown()
    shutdown.ask(100.0, None)
    shutdown.ask(101.0, None)
    assert (shutdown.state, shutdown.next_due()) == ("draining", None)
    assert not shutdown.must_kill(1e9)
    shutdown.ask(200.0, 30.0)
    assert shutdown.next_due() == 230.0


def test_a_drain_after_an_ask_takes_nothing_back() -> None:
    shutdown = Shutdown()
    shutdown.ask(100.0, 30.0)
    shutdown.ask(110.0, None)
    assert shutdown.next_due() == 130.0


@pytest.mark.parametrize("grace", [30.0, None])
def test_nothing_revives_what_is_being_killed(grace: float | None) -> None:
    shutdown = Shutdown()
    shutdown.ask(100.0, 0.0)
    assert shutdown.must_kill(100.0)
    shutdown.ask(101.0, grace)
    assert (shutdown.state, shutdown.next_due(), shutdown.must_kill(1e9)) == ("stopping", None, False)


@settings(deadline=None, max_examples=40)
@given(story=st.lists(asks, max_size=6))
def test_any_story_kills_at_most_once_and_never_later_than_the_first_grace(
    story: list[tuple[float, float | None]],
) -> None:
    shutdown, now, kills = Shutdown(), 0.0, []
    latest = float("inf")
    for wait, grace in story:
        now += wait
        due = shutdown.next_due()
        if shutdown.must_kill(now):
            assert due is not None
            assert due <= now
            kills.append(due)
        shutdown.ask(now, grace)
        assert shutdown.begun
        if grace is not None:
            latest = min(latest, now + grace)
    if shutdown.must_kill(now + 1e6):
        kills.append(shutdown.kill_at or 0.0)
    assert len(kills) == (latest < float("inf"))
    assert all(moment <= latest for moment in kills)
