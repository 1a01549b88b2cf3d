"""Named points in our own transactions, where a test may pause, fail or kill. One comparison when unset."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

Hook = Callable[[str], None]

_ACTION = re.compile(r"(kill|stop|raise|exit(:\d{1,3})?|sleep(:\d+(\.\d+)?)?)(@[1-9]\d*)?")

_hook: Hook | None = None


def step(name: str) -> None:
    """Announce the step `name` ("claim.lock", "finalize.commit", ...) to the hook, if there is one."""
    if _hook is not None:
        _hook(name)


def set_hook(hook: Hook | None) -> Hook | None:
    """Install `hook` (None removes it) and return the former one. For tests and the stress suite."""
    global _hook
    former, _hook = _hook, hook
    return former


class FailpointError(RuntimeError):
    """Raised by the failpoint action `raise`."""


def failpoints(plan: str) -> Hook:
    """A hook made from `name=action[@n]` pairs, separated by commas.

    Actions: kill, stop, raise, exit, sleep:SECONDS; `@n` acts on the n-th passing only (default: the first).
    Raises ValueError for a plan that does not parse."""
    actions: dict[str, tuple[str, int]] = {}
    for item in filter(None, (part.strip() for part in plan.split(","))):
        name, equals, rest = item.partition("=")
        action, _, nth = rest.partition("@")
        if not name or not equals or not _ACTION.fullmatch(rest):
            raise ValueError(f"SQLJOBS_FAILPOINTS: {item!r} is not name=kill|stop|raise|exit|sleep:SECONDS[@n]")
        actions[name] = (action, int(nth or 1))
    passed: dict[str, int] = {}

    def act(name: str) -> None:
        if name not in actions:
            return
        passed[name] = passed.get(name, 0) + 1
        action, nth = actions[name]
        if passed[name] == nth:
            _perform(name, action)

    return act


def _perform(name: str, action: str) -> None:
    verb, _, argument = action.partition(":")
    match verb:
        case "kill":
            signal.raise_signal(signal.SIGKILL)
        case "stop":
            signal.raise_signal(signal.SIGSTOP)
        case "exit":
            os._exit(int(argument or 70))
        case "sleep":
            time.sleep(float(argument or 1))
        case _:
            raise FailpointError(f"failpoint {name}")


if plan := os.environ.get("SQLJOBS_FAILPOINTS"):
    set_hook(failpoints(plan))
