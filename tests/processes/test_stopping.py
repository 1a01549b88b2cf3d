"""Signals and the kill ladder against real processes: children that resist, their groups, and numbers reused."""

import os
import select
import signal
import time
from pathlib import Path

import pytest

from sqljobs.supervisor.children import Child, Children, Ended
from sqljobs.supervisor.kill_ladder import Ladder, Reason, next_actions, next_due, stop
from sqljobs.supervisor.liveness import Liveness, probe, start_ticks_of
from tests.processes.offspring import (
    DEADLINE,
    block_every_signal_and_sleep_in_c,
    handled_by,
    raw,
    reported,
    settled,
    wait_for_ends,
)
from tests.waiting import wait_until

Table = Children[str]


def climb(children: Table, child: Child[str], kill_grace: float) -> tuple[list[signal.Signals], Ended[str]]:
    """Bring a child down by the ladder, as the supervisor does."""
    ladder, sent = stop(Ladder(), Reason.TIMEOUT, time.monotonic()), []
    while not (ended := children.reap()):
        ladder, actions = next_actions(ladder, time.monotonic(), kill_grace)
        for number in [action.signal for action in actions if action.signal is not None]:
            children.signal(child, number, group=True)
            sent.append(number)
        due = next_due(ladder, kill_grace)
        left = DEADLINE if due is None else max(0.0, due - time.monotonic())
        ready = select.select([child.pidfd], [], [], left)[0]
        assert ready or due is not None, "the child outlived the ladder"
    return sent, ended[0]


def spawn_with_grandchild(children: Table, then: str) -> tuple[Child[str], int, int]:
    """A child whose own child sleeps in the same group with every signal blocked; also its pid and start ticks."""

    def body(report_fd: int) -> None:
        grandchild = os.fork()
        if grandchild == 0:
            block_every_signal_and_sleep_in_c(report_fd)
        os.write(report_fd, f"{grandchild} {start_ticks_of(grandchild)};".encode())
        if then == "sleep":
            block_every_signal_and_sleep_in_c(report_fd)

    child = children.spawn("with grandchild", settled(body))
    reported(children, child, b";")
    reported(children, child, b"S")
    pid, ticks = children.reports(child).replace(b"S", b"").strip(b";").split()
    return child, int(pid), int(ticks)


def wait_until_dead(pid: int, ticks: int) -> None:
    wait_until(lambda: probe(pid, ticks) in (Liveness.GONE, Liveness.ZOMBIE), what=f"the death of {pid}")


def test_the_ladder_ends_a_child_that_blocks_every_signal_and_sleeps_in_c(children: Table) -> None:
    child = children.spawn("a", settled(block_every_signal_and_sleep_in_c))
    reported(children, child, b"S")
    sent, ended = climb(children, child, kill_grace=0.1)
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    assert ended.signal == signal.SIGKILL


def test_the_ladder_ends_a_stopped_child(children: Table) -> None:
    child = children.spawn("a", settled(lambda _: os.kill(os.getpid(), signal.SIGSTOP)))
    wait_until(lambda: probe(child.pid, child.start_ticks) is Liveness.STOPPED, what="the stop")
    sent, ended = climb(children, child, kill_grace=0.1)
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    assert ended.signal == signal.SIGKILL


def test_an_obedient_child_is_spared_the_sigkill(children: Table) -> None:
    def wait_for_a_signal(report_fd: int) -> None:
        os.write(report_fd, b"S")
        signal.pause()

    child = children.spawn("a", settled(wait_for_a_signal))
    reported(children, child, b"S")
    sent, ended = climb(children, child, kill_grace=DEADLINE)
    assert (sent, ended.signal) == ([signal.SIGTERM], signal.SIGTERM)


def test_a_signal_takes_the_whole_group(children: Table) -> None:
    child, grandchild, ticks = spawn_with_grandchild(children, then="sleep")
    assert probe(grandchild, ticks) is Liveness.ALIVE
    children.signal(child, signal.SIGKILL, group=True)
    wait_until_dead(grandchild, ticks)  # before the reaping, which would kill it too


def test_what_a_child_leaves_in_its_group_dies_at_the_reaping(children: Table) -> None:
    child, grandchild, ticks = spawn_with_grandchild(children, then="exit")
    select.select([child.pidfd], [], [], DEADLINE)
    assert probe(grandchild, ticks) is Liveness.ALIVE
    assert wait_for_ends(children)[child.key].exit_code == 0
    wait_until_dead(grandchild, ticks)


def test_before_its_setsid_a_child_is_reached_and_the_parents_group_is_not(children: Table) -> None:
    child = children.spawn("a", raw(block_every_signal_and_sleep_in_c))
    reported(children, child, b"S")
    with handled_by(signal.SIGTERM, lambda *_: pytest.fail("the parent's group was signalled")):
        assert children.signal(child, signal.SIGTERM, group=True)
        pending = int(Path(f"/proc/{child.pid}/status").read_text().split("ShdPnd:")[1].split()[0], 16)
        assert pending == 1 << (signal.SIGTERM - 1)
    assert children.signal(child, signal.SIGKILL, group=True)
    assert wait_for_ends(children)["a"].signal == signal.SIGKILL


def test_a_reaped_child_is_not_signalled_even_if_its_key_is_in_use_again(children: Table) -> None:
    first = children.spawn("a", raw(lambda _: None))
    wait_for_ends(children)
    assert not children.signal(first, signal.SIGKILL, group=True)
    second = children.spawn("a", raw(block_every_signal_and_sleep_in_c))
    assert not children.signal(first, signal.SIGKILL, group=True)
    assert probe(second.pid, second.start_ticks) is Liveness.ALIVE
