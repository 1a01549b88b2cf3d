"""What a child still has of its parent after `settle_in`: each inheritance by itself, with real forks."""

import errno
import fcntl
import gc
import os
import random
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import types
from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from sqljobs.supervisor.children import Children
from sqljobs.worker_runtime.post_fork import forget_inherited_connections, known_engines, settle_in
from tests.processes.offspring import answer_of, open_fds, raw, reported, run_script, settled, wait_for_ends
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


def test_only_the_standard_streams_and_the_report_stay_usable(children: Table, tmp_path: Path) -> None:
    def look(report_fd: int) -> tuple[list[int], list[bool], list[str]]:
        found = open_fds()
        # Opened only as a place in the file system: every use of it fails.
        dead = {fd for fd in found if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_PATH and not os.get_inheritable(fd)}
        errors = []
        for use in (lambda: os.write(ours[0], b"x"), lambda: sockets[0].send(b"x"), lambda: poller.poll(0)):
            with pytest.raises(OSError) as raised:
                use()
            errors.append(errno.errorcode[raised.value.errno or 0])
        return sorted(found - dead - {report_fd}), [fd in dead for fd in ours], errors

    sockets, poller = socket.socketpair(), select.epoll()
    pipe = os.pipe()
    with (tmp_path / "log").open("w") as file:
        ours = [file.fileno(), sockets[0].fileno(), sockets[1].fileno(), poller.fileno(), *pipe]
        children.spawn("a", settled(lambda report_fd: os.write(report_fd, repr(look(report_fd)).encode())))
        ended = wait_for_ends(children)["a"]
    assert ended.reports.decode() == repr(([0, 1, 2], [True] * 6, ["EBADF"] * 3))
    os.write(pipe[1], b"still ours")
    assert os.read(pipe[0], 20) == b"still ours"
    for closable in (*sockets, poller):
        closable.close()
    for fd in pipe:
        os.close(fd)


def test_stdin_is_empty_and_stdout_is_stderr(children: Table) -> None:
    def look() -> tuple[str, bool]:
        return os.readlink("/proc/self/fd/0"), os.path.sameopenfile(1, 2)

    assert answer_of(children, look) == ["/dev/null", True]


def test_programs_that_a_job_starts_inherit_only_the_standard_streams(children: Table) -> None:
    def ask() -> str:
        code = "import os; d = os.open('/proc/self/fd', 0); print(sorted(map(int, os.listdir(d))), d)"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, close_fds=False).stdout

    inheritable, other = os.pipe()
    os.set_inheritable(inheritable, True)
    listed = answer_of(children, ask)
    os.close(inheritable)
    os.close(other)
    assert listed in ("[0, 1, 2, 3, 4] 3\n", "[0, 1, 2, 3] 3\n")


def test_streams_that_were_closed_are_empty_ones_for_the_child(children: Table) -> None:
    parent = os.getpid()

    def body(report_fd: int) -> None:
        os.closerange(0, 3)
        settle_in(parent_pid=parent, keep_fds=[report_fd])
        print("into the void", file=sys.stderr)
        targets = {os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)}
        os.write(report_fd, repr((targets, [os.get_inheritable(fd) for fd in range(3)])).encode())

    children.spawn("a", raw(body))
    assert wait_for_ends(children)["a"].reports == repr(({"/dev/null"}, [True] * 3)).encode()


def test_what_a_job_prints_goes_to_stderr_and_it_reads_nothing(
    children: Table, capfd: pytest.CaptureFixture[str]
) -> None:
    def speak() -> str:
        print("from \udcff print")
        return sys.stdin.read()

    assert answer_of(children, speak) == ""
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "from \\udcff print\n")


def test_text_that_the_parent_has_yet_to_write_is_written_once() -> None:
    result = run_script(
        """
import sys
from sqljobs.supervisor.children import Children
from tests.processes.offspring import settled, wait_for_ends

sys.stdout.write("once")
children = Children()
children.spawn("a", settled(lambda _: (print("child"), sys.stdout.flush(), sys.__stdout__.flush())))
print(wait_for_ends(children)["a"].exit_code)
"""
    )
    assert (result.stdout, result.stderr) == ("once0\n", "child\n")


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


def test_a_fault_still_prints_its_stack_where_the_parent_asked_for_that() -> None:
    result = run_script(
        """
import faulthandler, os, resource, signal
from sqljobs.supervisor.children import Children
from tests.processes.offspring import settled, wait_for_ends

faulthandler.enable()
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


def test_the_end_of_an_inherited_sqlite_connection_does_not_harm_the_file(children: Table, tmp_path: Path) -> None:
    path = tmp_path / "wal.db"
    ours = sqlite3.connect(path, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE seen (who TEXT)")
    ours.execute("PRAGMA wal_checkpoint")
    children.spawn("a", settled(lambda _: ours.close()))
    assert wait_for_ends(children)["a"].exit_code == 0
    ours.execute("INSERT INTO seen VALUES ('parent')")
    theirs = sqlite3.connect(path)
    assert theirs.execute("SELECT who FROM seen").fetchall() == [("parent",)]
    assert theirs.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    theirs.close()
    ours.close()


class Watched(sqlite3.Connection):
    """A connection that notes its end, in the process where that happens."""

    ends: ClassVar[list[str]] = []

    def close(self) -> None:
        Watched.ends.append("closed")
        super().close()

    def __del__(self) -> None:
        Watched.ends.append("collected")


def test_an_inherited_engine_opens_connections_of_its_own_and_ends_none(children: Table, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'jobs.db'}", connect_args={"factory": Watched})
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE seen (who TEXT)"))
        inherited = id(connection.connection.dbapi_connection)

    engines = known_engines()

    def use_engine() -> tuple[bool, list[str]]:
        forget_inherited_connections(engines)
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO seen VALUES ('child')"))
            own = id(connection.connection.dbapi_connection)
        gc.collect()
        return own != inherited, Watched.ends

    assert answer_of(children, use_engine) == [True, []]
    with engine.begin() as connection:
        assert id(connection.connection.dbapi_connection) == inherited
        assert connection.scalars(text("SELECT who FROM seen")).all() == ["child"]
    engine.dispose()
    assert Watched.ends[0] == "closed"


class Proxy:
    """Says that it is an engine, as a lazy object would."""

    asked = False

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        Proxy.asked = True
        return Engine


def test_known_engines_finds_every_kind_and_wakes_no_proxy() -> None:
    plain, proxy = create_engine("sqlite://"), Proxy()
    options = plain.execution_options(isolation_level="SERIALIZABLE")
    asynchronous = create_async_engine("sqlite+aiosqlite://")
    found = known_engines()
    assert all(any(engine is one for one in found) for engine in (plain, options, asynchronous.sync_engine))
    assert id(proxy) not in map(id, found)
    assert not Proxy.asked
