"""Marks, numbers and orphans: what can be known of a process, and that adopting orphans is undone."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sqljobs.supervisor import sightings as sightings_module
from sqljobs.supervisor.adopting import adopting
from sqljobs.supervisor.liveness import start_ticks_of
from sqljobs.supervisor.sightings import marks_of, sight, sightings
from sqljobs.worker_runtime.post_fork import settle_in
from sqljobs.worker_runtime.process_mark import Mark, own_start_ticks
from tests.processes.offspring import answer_of, block_every_signal_and_sleep_in_c, raw, reported, run_script
from tests.processes.straying import MARK, TEN_MINUTES, Table, marked, stray_of
from tests.waiting import wait_until


def test_a_job_within_a_job_carries_both_marks(children: Table) -> None:
    inner = Mark(9, 1, "f" * 32)

    def outer(report_fd: int) -> None:
        if os.fork() == 0:
            settle_in(parent_pid=os.getppid(), keep_fds=[report_fd], mark=inner)
            os.write(report_fd, f"{os.getpid()} {own_start_ticks()};".encode())
            os.execv("/bin/sleep", ["sleep", TEN_MINUTES])
        block_every_signal_and_sleep_in_c(report_fd)

    child = children.spawn("outer", raw(marked(outer)))
    process = stray_of(children, child)
    wait_until(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), what="the exec")
    seen = sight(process.pid)
    assert seen is not None
    assert marks_of(seen) == frozenset({MARK, inner})
    head = sight(child.pid)
    assert head is not None
    assert marks_of(head) == frozenset({MARK})


def test_a_mark_is_seen_where_a_mere_fork_becomes_a_program_between_two_looks(
    children: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mapping is gone with the exec, and the environment shows the mark only after it."""

    def execs_when_told(report_fd: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        os.write(report_fd, b"waits;")
        signal.sigwait([signal.SIGUSR1])
        os.execv("/bin/sleep", ["sleep", TEN_MINUTES])

    child = children.spawn("execs", raw(marked(execs_when_told)))
    reported(children, child, b"waits;")
    program = Path(f"/proc/{child.pid}/exe")
    looked: list[str] = []

    def look_and_let_it_exec(path: str) -> bytes:
        content = read(path)
        if not looked:
            os.kill(child.pid, signal.SIGUSR1)
            wait_until(lambda: program.resolve().name != Path(sys.executable).resolve().name, what="the exec")
            wait_until(lambda: read(f"/proc/{child.pid}/environ"), what="the environment")
        looked.append(path)
        return content

    read = sightings_module._read
    monkeypatch.setattr(sightings_module, "_read", look_and_let_it_exec)
    seen = sight(child.pid)
    assert seen is not None
    assert marks_of(seen) == frozenset({MARK})
    assert len(looked) == 2


def test_a_process_knows_its_own_start(children: Table) -> None:
    assert own_start_ticks() == start_ticks_of(os.getpid())
    assert os.getpid() in {one.process.pid for one in sightings()}
    assert marks_of(sight(os.getpid()) or pytest.fail("unseen")) == frozenset()
    assert answer_of(children, own_start_ticks) >= own_start_ticks()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can say which number comes next")
def test_a_number_that_is_given_again_has_another_inode() -> None:
    script = """
import os, pathlib
from sqljobs.supervisor.sightings import numbers
found = []
for _ in range(2):
    gate, opener = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(opener)
        os.read(gate, 1)
        os._exit(0)
    found += [pid, numbers()[pid], numbers()[pid]]
    os.close(opener)
    os.waitpid(pid, 0)
    pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
print(found[0] == found[3], found[1] == found[2], found[4] == found[5], found[1] == found[4])
"""
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (result.stdout, result.stderr) == ("True True True False\n", "")


def test_adopting_is_undone_and_not_inherited(children: Table) -> None:
    def is_subreaper() -> int:
        value = ctypes.c_int(-1)
        ctypes.CDLL(None).prctl(37, ctypes.byref(value), 0, 0, 0)
        return value.value

    assert is_subreaper() == 0
    with adopting() as adopter:
        assert is_subreaper() == 1
        assert answer_of(children, is_subreaper) == 0
        assert adopter.pid == os.getpid()
    assert is_subreaper() == 0


SCRIPT = """
import os, signal, subprocess, sys, time
from sqljobs.supervisor.adopting import adopting
from sqljobs.supervisor.children import Children
from sqljobs.supervisor.sweeping import Sweeper
from tests.processes.offspring import raw, wait_for_ends
from tests.processes.straying import MARK, detached, is_dead, spawn, stray_of, sweep

children, sweeper = Children(), Sweeper()
before = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) if sys.argv[1] == "children" else None
with adopting() as adopter:
    sweeper.adopt(adopter)
    program = ["/bin/sleep", "600"] if sys.argv[1] != "refused" else None
    child = spawn(children, sweeper, lambda fd: detached(fd, program, {}))
    stray = stray_of(children, child)
    wait_for_ends(children)
    if sys.argv[1] == "refused":
        sweeper.condemn([MARK], 0.0)
        os.setresuid(65534, 65534, 65534)
    during = subprocess.Popen(["/bin/sleep", "600"])
    began = time.monotonic()
    sweeper.bury(MARK, time.clock_gettime(time.CLOCK_BOOTTIME))
    swept = sweep(sweeper)
    print(swept.killed == (stray,), swept.left == (stray,), is_dead(stray), time.monotonic() - began < 9)
    print([process.poll() for process in (before, during) if process is not None], stray.pid)
    for process in (before, during):
        if process is not None:
            process.kill()
            process.wait()
"""


@pytest.mark.parametrize(
    ("case", "answer"),
    [("alone", "True False True True"), ("children", "False False False True"), ("refused", "False True False True")],
)
def test_an_orphan_without_a_sign(case: str, answer: str) -> None:
    """It is killed where it can only be a job's; what we may not kill is named at once, and not waited for."""
    if case == "refused" and os.getuid() != 0:
        pytest.skip("only root can start what it may not kill later")
    result = run_script(SCRIPT, case)
    assert result.stderr == ""
    first, second = result.stdout.splitlines()
    others, _, pid = second.rpartition(" ")
    if case != "alone":
        os.kill(int(pid), signal.SIGKILL)
    assert first == answer
    assert others == ("[None, None]" if case == "children" else "[None]")
