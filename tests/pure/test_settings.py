"""A supervisor's settings: what is refused at start, the forms of `poll`, the defaults by database."""

import os
import socket
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.errors import InvalidJob
from sqljobs.supervisor.settings import Settings, check_settings

seconds = st.integers(1, 40)


def checked(**options: Any) -> Settings:
    return check_settings(**{"backend": "postgresql", **options})


def test_defaults_are_the_contracts() -> None:
    found = checked()
    assert (found.heartbeat, found.ttl, found.deadline, found.kill_grace) == (10, 60, 40, 5)
    assert (found.grace, found.poll_fast, found.poll_slow, found.aging) == (30, 0.05, 2, 600)
    assert (found.name, found.slots) == (socket.gethostname(), len(os.sched_getaffinity(0)))
    assert (found.until_idle, found.only_types, found.only_groups) == (False, (), ())


@settings(deadline=None, max_examples=40)
@given(heartbeat=seconds, ttl=st.integers(1, 90), deadline=seconds, kill_grace=st.integers(0, 40))
def test_a_lease_must_outlive_its_child(heartbeat: int, ttl: int, deadline: int, kill_grace: int) -> None:
    times = {"heartbeat": heartbeat, "ttl": ttl, "deadline": deadline, "kill_grace": kill_grace}
    if deadline + kill_grace + heartbeat < ttl:
        found = checked(**times)
        assert {name: getattr(found, name) for name in times} == times
    else:
        total = deadline + kill_grace + heartbeat
        with pytest.raises(InvalidJob, match=rf"^deadline \+ kill_grace \+ heartbeat is {total} s .*ttl \({ttl} s\)"):
            checked(**times)


def test_a_lease_that_ends_just_when_the_child_may_still_be_dying_is_too_short() -> None:
    assert checked(ttl=55.001).ttl == 55.001
    with pytest.raises(InvalidJob, match="is 55 s and must be below ttl"):
        checked(ttl=55)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((name, value) for name in ("heartbeat", "ttl", "deadline") for value in (0, -1, "soon", float("nan"), True)),
        *((name, value) for name in ("kill_grace", "grace", "aging") for value in (-1, "1 week", float("inf"), None)),
        *(("slots", value) for value in (0, -1, True, 1.5, "4", 10_001)),
        *(("name", value) for value in ("", " a", "a\n", "x" * 201, 7)),
        *(("poll", value) for value in ("", "0", "0-1s", "2s-1s", "-1", "1s-", "1s-2s-3s", "fast", None)),
        *(("on_lease_lost", value) for value in ("kil", "wait", 1)),
        *((name, value) for name in ("only_type", "only_group") for value in ("", ["a", ""], [1])),
    ],
)
def test_refused_in_one_line_that_names_the_option(option: str, value: object) -> None:
    with pytest.raises(InvalidJob, match=rf"^{option}\b[^\n]+$"):
        checked(**{option: value})


@pytest.mark.parametrize(
    ("poll", "fast", "slow"),
    [("0.05s-2s", 0.05, 2), ("1s", 1, 1), ("50ms-1.5m", 0.05, 90), ("0.1-3", 0.1, 3), (0.5, 0.5, 0.5), ("2s-2s", 2, 2)],
)
def test_forms_of_poll(poll: Any, fast: float, slow: float) -> None:
    found = checked(poll=poll)
    assert (found.poll_fast, found.poll_slow) == (fast, slow)


@pytest.mark.parametrize(
    ("backend", "default"), [("sqlite", "keep"), ("postgresql", "kill"), ("mysql", "kill"), ("mariadb", "kill")]
)
def test_on_lease_lost_by_database(backend: str, default: str) -> None:
    assert checked(backend=backend).on_lease_lost == default
    for choice in ("keep", "kill"):
        assert checked(backend=backend, on_lease_lost=choice).on_lease_lost == choice


def test_durations_in_every_form_and_zero_where_it_means_something() -> None:
    found = checked(heartbeat="500ms", ttl=timedelta(minutes=2), deadline="1m", kill_grace=0, grace=0, aging="0")
    assert (found.heartbeat, found.ttl, found.deadline) == (0.5, 120, 60)
    assert (found.kill_grace, found.grace, found.aging) == (0, 0, 0)


def test_one_type_or_group_may_be_given_as_text() -> None:
    found = checked(only_type="render", only_group=["acme", "umbrella"])
    assert (found.only_types, found.only_groups) == (("render",), ("acme", "umbrella"))
