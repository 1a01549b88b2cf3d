"""Descriptors and standard streams of the parent, as its children find them after `settle_in`."""

import errno
import fcntl
import os
import resource
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sqljobs.supervisor.children import Children
from sqljobs.worker_runtime.post_fork import settle_in
from tests.processes.offspring import answer_of, open_fds, raw, run_script, settled, wait_for_ends

Table = Children[str]


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


def test_a_descriptor_above_the_limit_in_force_is_closed(children: Table) -> None:
    """Its number cannot be given to anything else, and the child settles in all the same."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = fcntl.fcntl(0, fcntl.F_DUPFD, 200)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
        assert answer_of(children, lambda: [high in open_fds()]) == [False]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(high)


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
