"""The sweeper on real processes: what it kills, what it must not touch, when it gives up. End to end: tests/queue."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqljobs.supervisor import sweeping
from sqljobs.supervisor.children import kill_stray
from sqljobs.supervisor.liveness import start_ticks_of
from sqljobs.supervisor.sightings import Process, sight
from sqljobs.supervisor.sweeping import Sweeper
from sqljobs.supervisor.swept import PATIENCE_SECONDS, Swept
from sqljobs.worker_runtime.process_mark import own_start_ticks
from tests.processes.offspring import block_every_signal_and_sleep_in_c, wait_for_ends
from tests.processes.straying import (
    MARK,
    TEN_MINUTES,
    Table,
    detached,
    is_dead,
    killed_at_the_end,
    spawn,
    stray_of,
    sweep,
)
from tests.waiting import wait_until


@pytest.fixture
def stranger() -> Iterator[Process]:
    """A program that this process started by itself, in a session of its own."""
    with killed_at_the_end(start_new_session=True) as process:
        ticks = start_ticks_of(process.pid)
        assert ticks is not None
        yield Process(process.pid, ticks)


@pytest.mark.parametrize("program", [None, ["/bin/sleep", TEN_MINUTES]])
def test_embedded_a_stray_is_found_by_its_mark_and_the_host_programs_children_are_spared(
    children: Table, stranger: Process, program: list[str] | None
) -> None:
    sweeper = Sweeper()
    child = spawn(children, sweeper, lambda fd: detached(fd, program))
    stray = stray_of(children, child)
    wait_for_ends(children)
    assert not is_dead(stray)
    with killed_at_the_end() as later:
        sweeper.bury(MARK, time.clock_gettime(time.CLOCK_BOOTTIME))
        assert sweep(sweeper) == Swept(killed=(stray,))
        assert later.poll() is None
    assert is_dead(stray)
    assert not is_dead(stranger)


def test_an_attempt_that_goes_on_keeps_its_family(children: Table) -> None:
    sweeper, other = Sweeper(), MARK._replace(job_id=8)

    def stays(report_fd: int) -> None:
        detached(report_fd)
        block_every_signal_and_sleep_in_c(report_fd)

    going_on = spawn(children, sweeper, stays, other)
    kept = stray_of(children, going_on)
    ended = spawn(children, sweeper, detached)
    lost = stray_of(children, ended)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    wait_until(lambda: [end.child for end in children.reap()] == [ended], what="the end")
    sweeper.bury(MARK, now)
    assert sweep(sweeper) == Swept(killed=(lost,))
    assert not is_dead(kept)
    children.signal(going_on, signal.SIGKILL, group=True)
    wait_for_ends(children)
    sweeper.bury(other, now)
    assert sweep(sweeper, other) == Swept(killed=(kept,))
    assert is_dead(kept)
    assert sweeper.next_due() is None


def test_without_a_sign_a_program_is_found_while_its_ancestor_lives(children: Table) -> None:
    def in_a_session_of_its_own(report_fd: int) -> None:
        if os.fork() == 0:
            os.setsid()
            os.write(report_fd, f"{os.getpid()} {own_start_ticks()};".encode())
            os.execve("/bin/sleep", ["sleep", TEN_MINUTES], {})
        block_every_signal_and_sleep_in_c(report_fd)

    sweeper = Sweeper()
    child = spawn(children, sweeper, in_a_session_of_its_own)
    stray = stray_of(children, child)
    wait_until(lambda: b"sleep" in Path(f"/proc/{stray.pid}/cmdline").read_bytes(), what="the exec")
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    sweeper.condemn([MARK], now)
    children.signal(child, signal.SIGKILL, group=True)
    wait_for_ends(children)
    sweeper.bury(MARK, now)
    assert sweep(sweeper) == Swept(killed=(stray,))
    assert is_dead(stray)


def test_what_does_not_die_is_named_after_a_while(children: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeper = Sweeper()
    stray = stray_of(children, spawn(children, sweeper, detached))
    wait_for_ends(children)
    sweeper.bury(MARK, time.clock_gettime(time.CLOCK_BOOTTIME))
    with monkeypatch.context() as patched:
        patched.setattr(sweeping, "kill_stray", lambda seen: True)
        sweeper.run(time.clock_gettime(time.CLOCK_BOOTTIME))
        assert sweeper.take(MARK, time.clock_gettime(time.CLOCK_BOOTTIME)) is None
        assert sweep(sweeper, late=PATIENCE_SECONDS).left == (stray,)
    sweeper.run(time.clock_gettime(time.CLOCK_BOOTTIME) + 60)  # it is not forgotten
    wait_until(lambda: is_dead(stray), what="the end of the stray")


def test_the_number_of_another_process_is_not_signalled(stranger: Process) -> None:
    seen = sight(stranger.pid)
    assert seen is not None
    assert kill_stray(seen._replace(process=stranger._replace(start_ticks=stranger.start_ticks - 1)))
    assert not is_dead(stranger)
    with killed_at_the_end() as ours:  # in our session and group: only it dies
        seen = sight(ours.pid)
        assert seen is not None
        assert kill_stray(seen)
        assert ours.wait() == -signal.SIGKILL
    assert kill_stray(seen), "it is gone, and there is nothing to be done"
