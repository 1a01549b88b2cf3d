"""Ask a fresh interpreter for something, and wait for what it says: before there are jobs to look after."""

from __future__ import annotations

import json
import select
import signal
from collections.abc import Mapping
from typing import Any

from sqljobs.schema import errors
from sqljobs.schema.errors import BadHandlers, Error
from sqljobs.supervisor.child_process import Ended
from sqljobs.supervisor.children import Children
from sqljobs.supervisor.crashes import end_of
from sqljobs.supervisor.interpreters import interpreter


def ask(task: str, told: Mapping[str, Any], *, doing: str) -> dict[str, Any]:
    """What it answers. Raises the error that it met, or `BadHandlers` for an end without a word: `doing` says at what.

    An exception that comes meanwhile, such as Ctrl-C, ends it."""
    with interpreter(task, told) as program:
        children: Children[str] = Children()
        child = children.execute(task, program)
    ended: list[Ended[str]] = []
    try:
        while not ended:
            _wait_for(child.pidfd, child.report_fd)
            children.reports(child)  # read while it writes: a pipe holds little
            ended = children.reap()
    finally:
        end_all(children)
    answer = answer_of(ended[0])
    if answer is None:
        end = end_of(ended[0].exit_code, ended[0].signal)
        raise BadHandlers(f"{doing} ended the process that was to do so, before it said anything: {end}")
    return answer


def end_all(children: Children[str]) -> None:
    """Kill what still lives, and see it dead."""
    for child in children:
        children.signal(child, signal.SIGKILL, group=True)
        _wait_for(child.pidfd)
        children.reap()


def answer_of(ended: Ended[Any]) -> dict[str, Any] | None:
    """What a fresh interpreter has said; None for one that ended without a word. Raises the error that it met."""
    if not ended.reports:
        return None
    answer: dict[str, Any] = json.loads(ended.reports)
    if "error" in answer:
        kind = getattr(errors, answer["error"], Error)
        raise kind(answer["text"])
    return answer


def _wait_for(*descriptors: int) -> None:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll()
