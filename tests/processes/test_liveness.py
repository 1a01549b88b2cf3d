"""Which process is meant, and what became of it."""

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sqljobs.supervisor.children import Child, Children
from sqljobs.supervisor.liveness import (
    Liveness,
    boot_id,
    other_threads,
    own_process,
    probe,
    probe_all,
    start_ticks_of,
    usable_cpus,
)
from tests.processes.offspring import DEADLINE, answer_of, raw, reported, settled, wait_for_ends
from tests.waiting import wait_until

Table = Children[str]


def sleeping(children: Table) -> Child[str]:
    return children.spawn("sleeping", settled(lambda _: signal.pause()))


def test_this_process_is_alive_and_knows_itself() -> None:
    own = own_process()
    assert own.pid == os.getpid()
    assert probe(own.pid, own.start_ticks) is Liveness.ALIVE


def test_another_process_with_the_same_number_counts_as_gone() -> None:
    own = own_process()
    assert probe(own.pid, own.start_ticks - 1) is Liveness.GONE


def test_stopped_and_running_again(children: Table) -> None:
    child = sleeping(children)
    for number, expected in ((signal.SIGSTOP, Liveness.STOPPED), (signal.SIGCONT, Liveness.ALIVE)):
        children.signal(child, number, group=False)
        wait_until(lambda: probe(child.pid, child.start_ticks) is expected, what=expected)  # noqa: B023


def test_a_zombie_is_not_alive_and_gone_once_it_is_reaped(children: Table) -> None:
    child = children.spawn("a", raw(lambda _: os._exit(0)))
    select.select([child.pidfd], [], [], DEADLINE)
    assert probe(child.pid, child.start_ticks) is Liveness.ZOMBIE
    wait_for_ends(children)
    assert probe(child.pid, child.start_ticks) is Liveness.GONE
    assert start_ticks_of(child.pid) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a /proc of its own")
def test_a_process_that_proc_hides_counts_as_alive() -> None:
    script = (
        "import os, sys; from sqljobs.supervisor.liveness import probe, start_ticks_of; from pathlib import Path;"
        "os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534); pid = os.getppid();"
        "print(Path(f'/proc/{pid}').exists(), start_ticks_of(pid), probe(pid, 1), probe(int(sys.argv[1]), 1))"
    )
    with subprocess.Popen(["/bin/true"]) as over:
        over.wait()
    mounted = "mount -t proc -o hidepid={} proc /proc && "
    for way, visible in (("2", False), ("1", True)):
        # Not by exec: the shell, root's, stays as the hidden one.
        command = mounted.format(way) + f'"{sys.executable}" -c "$0" {over.pid}; exit $?'
        result = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command, script], capture_output=True, text=True, check=False
        )
        assert (result.stdout, result.stderr) == (f"{visible} None alive gone\n", "")


def test_many_at_once(children: Table) -> None:
    own, child = own_process(), sleeping(children)
    asked = [(own.pid, own.start_ticks), (own.pid, 1), (child.pid, child.start_ticks)]
    assert probe_all(asked) == {asked[0]: Liveness.ALIVE, asked[1]: Liveness.GONE, asked[2]: Liveness.ALIVE}


def test_a_process_may_be_named_like_the_fields_after_its_name(children: Table) -> None:
    def rename(report_fd: int) -> None:
        ctypes.CDLL(None).prctl(15, b"a) Z 1 (b 2 3", 0, 0, 0)
        os.write(report_fd, b"S")
        signal.pause()

    child = children.spawn("a", settled(rename))
    reported(children, child, b"S")
    assert start_ticks_of(child.pid) == child.start_ticks
    wait_until(lambda: probe(child.pid, child.start_ticks) is Liveness.ALIVE, what="its sleep")


def test_the_boot_is_the_same_for_all_processes_of_this_pid_namespace(children: Table) -> None:
    assert answer_of(children, boot_id) == boot_id() == own_process().boot_id
    assert len(boot_id()) <= 60
    assert not set(boot_id()) & set(" /\n")


def test_usable_cpus_are_those_of_the_affinity(children: Table) -> None:
    def on_one_cpu() -> int:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return usable_cpus()

    assert usable_cpus() == len(os.sched_getaffinity(0))
    assert answer_of(children, on_one_cpu) == 1


def test_a_thread_of_a_c_library_is_seen_too(children: Table) -> None:
    def with_native_thread() -> list[str]:
        libc = ctypes.CDLL(None)
        created = libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.sleep, ctypes.c_void_p(3600))
        assert created == 0
        return other_threads()

    assert answer_of(children, with_native_thread) == [Path("/proc/self/comm").read_text().strip()]


def test_other_threads_are_named() -> None:
    assert other_threads() == []
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, name=name) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    assert sorted(other_threads()) == ["one", "two"]
    done.set()
    for thread in threads:
        thread.join()
    assert other_threads() == []


def test_nobody_is_held_for_dead_for_lack_of_descriptors() -> None:
    own = own_process()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        seen = probe(own.pid, own.start_ticks)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert seen is Liveness.ALIVE
