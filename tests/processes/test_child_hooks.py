"""Hooks as they are run in a child: errors, time limits, and what is as before afterwards."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from sqljobs.supervisor.children import Children
from sqljobs.worker_runtime.child_hooks import run_hooks
from sqljobs.worker_runtime.post_fork import silence_signals
from tests.processes.offspring import answer_of

Table = Children[str]
SHORT = 0.2
LONG = 600.0


class Telling(logging.Handler):
    """Hands each record to a function."""

    def __init__(self, tell: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(record)


def outcome_of(*hooks: Callable[[], object], seconds: float = SHORT) -> dict[str, Any]:
    """What is logged, and said, when these are run in the calling process."""
    said: list[str] = []
    records: list[logging.LogRecord] = []
    logger = logging.getLogger("sqljobs.job")
    logger.addHandler(Telling(records.append))
    run_hooks(hooks, said.append, seconds)
    kinds = [record.exc_info[0].__name__ for record in records if record.exc_info and record.exc_info[0]]
    return {"kinds": kinds, "messages": [record.getMessage() for record in records], "said": said}


def hangs() -> None:
    time.sleep(LONG)


def hangs_in_pieces() -> None:
    while True:
        time.sleep(0.01)


def swallows() -> None:
    until = time.monotonic() + 4 * SHORT
    while time.monotonic() < until:
        try:
            time.sleep(LONG)
        except BaseException:  # noqa: BLE001 - that is the point
            continue


def leaves() -> None:
    sys.exit(3)


def raises() -> None:
    raise ValueError("no")


def nothing() -> None: ...


def test_whatever_they_do_all_of_them_are_run_and_told(children: Table) -> None:
    order: list[str] = []

    def ask() -> object:
        told = outcome_of(raises, hangs, leaves, hangs_in_pieces, swallows, lambda: order.append("last"))
        return {**told, "order": order}

    told = answer_of(children, ask)
    assert told["order"] == ["last"]
    assert told["kinds"] == ["ValueError", "HookTimeout", "SystemExit", "HookTimeout", "HookTimeout"]
    assert told["messages"][0] == f"the hook {__name__}.raises ended with ValueError"
    assert [words.splitlines()[0] for words in told["said"]] == told["messages"]
    assert 'raise ValueError("no")' in told["said"][0]
    assert "took longer than 0.2 s" in told["said"][1]
    assert "in hangs" in told["said"][1]


def test_the_limit_holds_where_all_signals_are_blocked(children: Table) -> None:
    def ask() -> object:
        silence_signals()
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # somebody's own, which has not come through
        while signal.SIGALRM not in signal.sigpending():
            time.sleep(0.001)
        told = outcome_of(nothing, hangs, nothing)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        kept = signal.getsignal(signal.SIGALRM) == signal.default_int_handler
        return told["kinds"], signal.valid_signals() - blocked == {signal.SIGKILL, signal.SIGSTOP}, kept

    assert answer_of(children, ask) == [["HookTimeout"], True, True]


def test_timer_and_handler_are_what_they_were(children: Table) -> None:
    def ask() -> object:
        heard: list[int] = []
        signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))
        signal.setitimer(signal.ITIMER_REAL, LONG, 7.0)
        kinds = outcome_of(raises, hangs)["kinds"]
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        signal.raise_signal(signal.SIGALRM)
        return kinds, LONG / 2 < left < LONG + 1, interval, heard, signal.SIGALRM in blocked()

    assert answer_of(children, ask) == [["ValueError", "HookTimeout"], True, 7.0, [signal.SIGALRM], False]


def blocked() -> set[int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def test_a_handler_that_a_hook_sets_stays_and_is_not_called_by_our_timer(children: Table) -> None:
    heard: list[int] = []

    def takes_the_handler() -> None:
        signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))

    def takes_both() -> None:
        takes_the_handler()
        signal.setitimer(signal.ITIMER_REAL, LONG, 9.0)

    def ask() -> object:
        outcome_of(takes_the_handler)
        first = signal.getitimer(signal.ITIMER_REAL)
        outcome_of(takes_both)
        signal.raise_signal(signal.SIGALRM)
        return first, signal.getitimer(signal.ITIMER_REAL)[1], heard

    assert answer_of(children, ask) == [[0.0, 0.0], 9.0, [signal.SIGALRM]]


def test_a_copy_that_a_hook_forks_goes_no_further(children: Table) -> None:
    def ask() -> object:
        pids: list[int] = []
        run_hooks([lambda: pids.append(os.fork())], print, LONG)
        return os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]), pids[0] > 0

    assert answer_of(children, ask) == [0, True]


def test_a_failure_that_cannot_be_logged_is_said(children: Table) -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    def rude() -> None:
        raise Rude

    def ask() -> object:
        logging.getLogger("sqljobs.job").addHandler(Telling(lambda _: sys.exit("broken")))
        said: list[str] = []
        run_hooks([rude, nothing], said.append, LONG)
        return said[-1]

    assert (
        answer_of(children, ask)
        == f"the hook {__name__}.{rude.__qualname__} failed, and its failure could not be logged"
    )
