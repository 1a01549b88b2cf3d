"""What a child is after `settle_in`: its signals, session, luck, and that it dies with its parent."""

import os
import random
import signal
import socket
import sys
import types
from pathlib import Path

import pytest

from sqljobs.supervisor.children import Children
from sqljobs.worker_runtime.post_fork import settle_in
from tests.processes.offspring import answer_of, raw, reported, run_script, wait_for_ends
from tests.waiting import wait_until

Table = Children[str]


def test_a_child_leads_its_own_session(children: Table) -> None:
    own, group, session = answer_of(children, lambda: [os.getpid(), os.getpgrp(), os.getsid(0)])
    assert own == group == session != os.getpid()


def test_signals_are_those_of_a_fresh_interpreter(children: Table) -> None:
    def dispositions() -> object:
        found = {number: signal.getsignal(number) for number in signal.valid_signals()}
        python = [number for number, handler in found.items() if handler is signal.default_int_handler]
        rest = {int(number): int(handler) for number, handler in found.items() if isinstance(handler, signal.Handlers)}
        blocked = [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
        return [python, rest, blocked, signal.set_wakeup_fd(-1)]

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    inherited = {signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: None)}
    inherited[signal.SIGUSR2] = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    wakeup = signal.set_wakeup_fd(writer.fileno())
    try:
        python, rest, blocked, fd = answer_of(children, dispositions)
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in inherited.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()
    assert (python, blocked, fd) == ([signal.SIGINT], [], -1)
    ignored = {int(number) for number, handler in rest.items() if handler == signal.SIG_IGN}
    assert ignored == {signal.SIGPIPE, signal.SIGXFSZ}
    assert len(rest) == len(signal.valid_signals()) - 1


def test_sigint_is_a_keyboard_interrupt(children: Table) -> None:
    def interrupted() -> bool:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return True
        return False

    assert answer_of(children, interrupted) is True


def test_a_ctrl_c_for_the_group_that_came_before_the_session_is_dropped(children: Table) -> None:
    parent = os.getpid()

    def body(report_fd: int) -> None:
        os.write(report_fd, b"forked ")
        both = {signal.SIGINT, signal.SIGTERM}
        wait_until(lambda: both <= signal.sigpending(), what="the signals")
        settle_in(parent_pid=parent, keep_fds=[report_fd])
        os.write(report_fd, b"alive")

    child = children.spawn("a", raw(body))
    reported(children, child, b"forked")
    children.signal(child, signal.SIGINT, group=False)
    children.signal(child, signal.SIGTERM, group=False)
    ended = wait_for_ends(children)["a"]
    assert (ended.exit_code, ended.reports) == (0, b"forked alive")


def test_children_draw_different_random_numbers(children: Table) -> None:
    drawn = {answer_of(children, random.random) for _ in range(3)} | {random.random()}
    assert len(drawn) == 4


def test_numpys_global_generator_is_reseeded_if_it_is_loaded(children: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded: list[str] = []
    stand_in = types.ModuleType("numpy.random")
    vars(stand_in)["seed"] = lambda: seeded.append("yes")
    monkeypatch.setitem(sys.modules, "numpy.random", stand_in)
    assert answer_of(children, lambda: seeded) == ["yes"]


def test_the_oom_killer_prefers_the_child(children: Table) -> None:
    def score() -> int:
        return int(Path("/proc/self/oom_score_adj").read_text())

    assert answer_of(children, score) == min(score() + 500, 1000)


def test_a_fault_prints_its_stack() -> None:
    result = run_script(
        """
import os, resource, signal
from sqljobs.supervisor.children import Children
from tests.processes.offspring import settled, wait_for_ends

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
children = Children()
children.spawn("a", settled(lambda _: os.kill(os.getpid(), signal.SIGSEGV)))
print(wait_for_ends(children)["a"].signal)
"""
    )
    assert result.stdout == "11\n"
    assert "Fatal Python error: Segmentation fault" in result.stderr


PARENT_DIES = """
import os, signal, sys
from sqljobs.supervisor.children import Children
from sqljobs.worker_runtime.post_fork import settle_in
from tests.processes.offspring import raw, reported
from tests.waiting import wait_until

parent, when, survived = os.getpid(), sys.argv[1], sys.argv[2]

def body(report_fd):
    if when == "before":
        os.write(report_fd, b"S")
        wait_until(lambda: os.getppid() != parent, what="the parent's death")
    settle_in(parent_pid=parent, keep_fds=[report_fd])
    if when == "after":
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.write(report_fd, b"S")
        wait_until(lambda: os.getppid() != parent, what="the parent's death", timeout=20)
    open(survived, "w").close()

children = Children()
reported(children, children.spawn("a", raw(body)), b"S")
os.kill(parent, signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_child_dies_with_its_parent(tmp_path: Path, when: str) -> None:
    # The end of both output pipes, which the child holds too, is the end of the child.
    result = run_script(PARENT_DIES, when, str(tmp_path / "survived"))
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGKILL, "", "")
    assert not (tmp_path / "survived").exists()
