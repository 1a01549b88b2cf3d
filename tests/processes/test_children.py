"""Forking, reporting and reaping with real processes; test_stopping has the signals."""

import json
import os
import select
import signal
import threading
import time
from pathlib import Path
from typing import NoReturn

import pytest

from sqljobs.supervisor.children import Children, ThreadsAlive
from sqljobs.supervisor.liveness import start_ticks_of
from tests.processes.offspring import (
    DEADLINE,
    block_every_signal_and_sleep_in_c,
    handled_by,
    open_fds,
    raw,
    reported,
    run_script,
    settled,
    wait_for_ends,
)

Table = Children[str]


@pytest.mark.parametrize("code", [0, 1, 70, 255])
def test_exit_codes(children: Table, code: int) -> None:
    child = children.spawn("a", settled(lambda _: os._exit(code)))
    ended = wait_for_ends(children)["a"]
    assert (ended.child, ended.exit_code, ended.signal) == (child, code, None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGRTMIN + 1])
def test_death_by_a_signal(children: Table, number: int) -> None:
    children.spawn("a", settled(lambda _: os.kill(os.getpid(), number)))
    ended = wait_for_ends(children)["a"]
    assert (ended.exit_code, ended.signal) == (None, number)


def test_the_table(children: Table) -> None:
    assert len(children) == 0
    first, second = (children.spawn(key, raw(block_every_signal_and_sleep_in_c)) for key in ("a", "b"))
    assert (len(children), list(children), children.get("a"), children.get("c")) == (2, [first, second], first, None)
    assert "b" in children
    with pytest.raises(KeyError, match="'a' has a child already"):
        children.spawn("a", raw(block_every_signal_and_sleep_in_c))
    assert children.reap() == []
    children.signal(first, signal.SIGKILL, group=False)
    select.select([first.pidfd], [], [], DEADLINE)
    assert [end.child for end in children.reap()] == [first]
    assert list(children) == [second]


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_a_child_raises_it_never_returns_into_the_parents_stack(
    children: Table, tmp_path: Path, capfd: pytest.CaptureFixture[str], error: type[BaseException]
) -> None:
    def fail(_: int) -> NoReturn:
        raise error("no way \udcff back")

    unwound = tmp_path / "unwound"
    try:
        children.spawn("a", fail)
    finally:
        with unwound.open("a") as file:
            file.write(f"{os.getpid()}\n")
    assert wait_for_ends(children)["a"].exit_code == 70
    assert unwound.read_text() == f"{os.getpid()}\n"
    assert f"{error.__name__}: no way \\udcff back" in capfd.readouterr().err


def test_a_child_that_returns_ends_with_70(children: Table) -> None:
    children.spawn("a", lambda _: None)  # type: ignore[arg-type,return-value]
    assert wait_for_ends(children)["a"].exit_code == 70


def test_reports_arrive_while_the_child_lives_and_after_its_end(children: Table) -> None:
    parent_end, child_end = os.pipe()

    def body(report_fd: int) -> None:
        os.write(report_fd, b"S")
        os.read(parent_end, 1)
        os.write(report_fd, b"F")

    child = children.spawn("a", raw(body))
    assert children.reports(child) in (b"", b"S")
    reported(children, child, b"S")
    os.write(child_end, b".")
    assert wait_for_ends(children)["a"].reports == b"SF"
    os.close(parent_end)
    os.close(child_end)


def test_evidence(children: Table) -> None:
    def burn(_: int) -> None:
        while time.process_time() < 0.05:
            sum(range(1000))

    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    child = children.spawn("a", raw(burn))
    assert before <= child.forked_at <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert child.start_ticks == start_ticks_of(child.pid)
    ended = wait_for_ends(children)["a"]
    assert ended.cpu_seconds >= 0.04  # the kernel counts some of it in whole ticks
    assert ended.max_rss_bytes > 1_000_000


def test_no_descriptor_is_left_after_200_children(children: Table) -> None:
    before = open_fds()
    for number in range(200):
        children.spawn(str(number), raw(lambda _: None))
        if number % 8 == 0:
            wait_for_ends(children)
    wait_for_ends(children)
    assert open_fds() == before


def test_a_second_thread_refuses_the_fork_by_name(children: Table) -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="metrics exporter")
    thread.start()
    before = open_fds()
    try:
        with pytest.raises(ThreadsAlive, match=r"other threads run \(metrics exporter\)"):
            children.spawn("a", raw(lambda _: None))
        assert (len(children), open_fds()) == (0, before)
    finally:
        done.set()
        thread.join()
    children.spawn("a", raw(lambda _: None))  # a thread that has ended is no reason


@pytest.mark.parametrize("resource", ["RLIMIT_NPROC", "RLIMIT_NOFILE"])
def test_a_failed_fork_leaves_nothing(resource: str) -> None:
    result = run_script(
        """
import os, resource, sys
from sqljobs.supervisor.children import Children, ForkFailed
from tests.processes.offspring import open_fds, raw, wait_for_ends

children, limit = Children(), getattr(resource, sys.argv[1])
before = open_fds()
# Room for the two ends of the pipe, but not for the pidfd; or for no process at all (root is exempt from that).
allowed = max(before) + 3 if sys.argv[1] == "RLIMIT_NOFILE" else 1
resource.setrlimit(limit, (allowed, resource.getrlimit(limit)[1]))
if sys.argv[1] == "RLIMIT_NPROC" and os.getuid() == 0:
    os.setresuid(65534, 65534, 0)
try:
    children.spawn("a", raw(lambda _: None))
except ForkFailed as error:
    print(error)
assert len(children) == 0
if os.getresuid()[2] == 0:
    os.setresuid(0, 0, 0)
resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)
assert open_fds() == before, open_fds()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child")
children.spawn("a", raw(lambda _: None))
print(wait_for_ends(children)["a"].exit_code)
""",
        resource,
    )
    assert result.stderr == ""
    failure, *rest = result.stdout.splitlines()
    assert "cannot start a child process: " in failure
    assert rest == ["no child", "0"]


def test_an_exit_status_that_other_code_took_is_an_end_without_status(children: Table) -> None:
    child = children.spawn("a", raw(lambda fd: os.write(fd, b"S")))
    os.waitpid(child.pid, 0)
    ended = wait_for_ends(children)["a"]
    assert (ended.exit_code, ended.signal, ended.reports) == (None, None, b"S")


def test_exit_codes_arrive_although_our_starter_ignored_sigchld() -> None:
    with handled_by(signal.SIGCHLD, signal.SIG_IGN):
        table: Table = Children()
        table.spawn("a", raw(lambda _: os._exit(5)))
        assert wait_for_ends(table)["a"].exit_code == 5


def test_no_handler_of_the_parent_runs_in_a_child(children: Table, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with handled_by(signal.SIGUSR1, lambda *_: ran.write_text(str(os.getpid()))):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for number in range(20):
            child = children.spawn(str(number), raw(lambda fd: os.write(fd, json.dumps(blocked()).encode())))
            children.signal(child, signal.SIGUSR1, group=False)
        ended = wait_for_ends(children)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert [end.signal for end in ended.values()] == [None] * 20
    every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    assert all(set(json.loads(end.reports)) == every for end in ended.values())
    assert not ran.exists()


def blocked() -> list[int]:
    return sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


class Interrupting(str):
    """A key; a signal arrives while the table, with signals blocked, puts it in."""

    def __hash__(self) -> int:
        if signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
            signal.raise_signal(signal.SIGUSR1)
        return super().__hash__()


def test_a_child_is_in_the_table_even_if_a_signal_handler_raises_meanwhile(children: Table) -> None:
    def interrupt(*_: object) -> None:
        raise TimeoutError("from a handler")

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with (
        handled_by(signal.SIGUSR1, interrupt),
        pytest.raises(TimeoutError, match="from a handler"),
    ):
        children.spawn(Interrupting("a"), raw(block_every_signal_and_sleep_in_c))
    assert [child.key for child in children] == ["a"]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
