"""Named steps: the hook, plans of failpoints, and one real process that ends at its step."""

import os
import subprocess
import sys

import pytest

from sqljobs.schema.steps import FailpointError, failpoints, set_hook, step

SCRIPT = "from sqljobs.schema.steps import step\nfor name in ('a', 'b', 'a', 'c'): step(name); print(name, flush=True)"


def passings(plan: str, names: str) -> list[int]:
    """Numbers of the steps of `names` at which the plan raises."""
    hook, raised = failpoints(plan), []
    for number, name in enumerate(names.split(), 1):
        try:
            hook(name)
        except FailpointError:
            raised.append(number)
    return raised


@pytest.mark.parametrize(
    ("plan", "raises_at"),
    [
        ("", []),
        (" , ", []),
        ("x=raise", []),
        ("a=raise", [1]),
        ("a=raise@1", [1]),
        ("a=raise@2", [3]),
        ("a=raise@3", [4]),
        ("a=raise@4", []),
        ("a=raise@2, b=raise", [2, 3]),
        ("claim.lock=raise,a=raise@3", [4]),
    ],
)
def test_a_failpoint_acts_at_its_passing_only(plan: str, raises_at: list[int]) -> None:
    assert passings(plan, "a b a a b") == raises_at


@pytest.mark.parametrize(
    "plan",
    [
        *("a", "a=", "=kill", "a=explode", "a=kill@0", "a=kill@-1", "a=kill@x", "a=kill@", "a=kill:3"),
        *("a=sleep:long", "a=sleep:-1", "a=exit:no", "a=kill b=stop", "a=raise,b"),
    ],
)
def test_a_plan_that_does_not_parse_is_refused_whole(plan: str) -> None:
    with pytest.raises(ValueError, match=r"^SQLJOBS_FAILPOINTS: '[^']+' is not name=kill\|stop"):
        failpoints(plan)


def test_the_error_names_the_failpoint() -> None:
    with pytest.raises(FailpointError, match=r"^failpoint claim\.lock$"):
        failpoints("claim.lock=raise")("claim.lock")


def test_a_sleep_goes_on_afterwards() -> None:
    hook = failpoints("a=sleep:0.001")
    assert [hook("a"), hook("a")] == [None, None]


def test_the_hook_hears_each_step_and_the_former_is_handed_back() -> None:
    first: list[str] = []
    second: list[str] = []
    original = set_hook(first.append)
    try:
        step("a")
        former = set_hook(second.append)
        assert former == first.append
        step("b")
        assert set_hook(former) == second.append
        step("c")
        set_hook(None)
        step("d")
        assert set_hook(None) is None
    finally:
        set_hook(original)
    assert (first, second) == (["a", "c"], ["b"])


@pytest.mark.parametrize(
    ("plan", "ends_with", "printed"),
    [("a=exit@2", 70, "a b"), ("x=exit, b=kill", -9, "a")],
)
def test_a_process_ends_at_its_step(plan: str, ends_with: int, printed: str) -> None:
    environ = {**os.environ, "SQLJOBS_FAILPOINTS": plan}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()) == (ends_with, printed.split()), done.stderr
