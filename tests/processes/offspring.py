"""Real children for tests: run a body in a settled child, wait for ends by pidfd. No policy of the product."""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from sqljobs.supervisor.children import Child, Children, Ended
from sqljobs.worker_runtime.post_fork import settle_in

DEADLINE = 120.0


def raw(body: Callable[[int], object]) -> Callable[[int], NoReturn]:
    """`body` for `spawn`, without settling in; the child ends with exit code 0 after it."""

    def run(report_fd: int) -> NoReturn:
        body(report_fd)
        os._exit(0)

    return run


def settled(body: Callable[[int], object]) -> Callable[[int], NoReturn]:
    """`body` for `spawn`, after settling in; the child ends with exit code 0 after it."""
    parent = os.getpid()

    def settle_and_run(report_fd: int) -> None:
        settle_in(parent_pid=parent, keep_fds=[report_fd])
        body(report_fd)

    return raw(settle_and_run)


def answering(ask: Callable[[], object]) -> Callable[[int], NoReturn]:
    """A settled child that reports what `ask` returns, as JSON."""
    return settled(lambda report_fd: os.write(report_fd, json.dumps(ask()).encode()))


def wait_for_ends(children: Children[str]) -> dict[str, Ended[str]]:
    """Reap until no child is left; by key."""
    ended: dict[str, Ended[str]] = {}
    deadline = time.monotonic() + DEADLINE
    while len(children):
        left = deadline - time.monotonic()
        assert left > 0, f"waited {DEADLINE:g} s for the end of {list(children)}"
        select.select([child.pidfd for child in children], [], [], left)
        ended.update({end.child.key: end for end in children.reap()})
    return ended


def reported(children: Children[str], child: Child[str], what: bytes) -> None:
    """Wait until a living child has reported `what`."""
    deadline = time.monotonic() + DEADLINE
    while what not in children.reports(child):
        left = deadline - time.monotonic()
        assert left > 0, f"waited {DEADLINE:g} s for the report {what!r}"
        select.select([child.report_fd], [], [], left)


def answer_of(children: Children[str], ask: Callable[[], object]) -> Any:
    """What `ask` returns in a settled child of its own."""
    children.spawn("answering", answering(ask))
    ended = wait_for_ends(children)["answering"]
    assert (ended.exit_code, ended.signal) == (0, None)
    return json.loads(ended.reports)


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, for what would harm the test's process."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def open_fds() -> set[int]:
    """The descriptors of this process, without the one that lists them."""
    listed = {int(name) for name in os.listdir("/proc/self/fd")}
    return {fd for fd in listed if os.path.exists(f"/proc/self/fd/{fd}")}


def block_every_signal_and_sleep_in_c(report_fd: int) -> None:
    """What only SIGKILL ends; reports `S` first."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.write(report_fd, b"S")
    ctypes.CDLL(None).sleep(600)  # longer than any test, and not for ever if the test run is killed


@contextmanager
def handled_by(number: int, handler: Any) -> Iterator[None]:
    """Within it a signal has this handler in this process."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
