"""Children that leave daemons behind, and a sweeper for them, without a database. No policy of the product."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqljobs.supervisor.children import Child, Children
from sqljobs.supervisor.liveness import Liveness, probe
from sqljobs.supervisor.sightings import Process
from sqljobs.supervisor.sweeping import Sweeper
from sqljobs.supervisor.swept import Swept
from sqljobs.worker_runtime.post_fork import settle_in
from sqljobs.worker_runtime.process_mark import Mark, own_start_ticks
from tests.processes.offspring import block_every_signal_and_sleep_in_c, raw, reported
from tests.waiting import wait_until

Table = Children[str]
MARK = Mark(7, 3, f"{os.getpid():032x}")
TEN_MINUTES = "600"


def detached(report_fd: int, program: list[str] | None = None, environment: dict[str, str] | None = None) -> None:
    """Leave a daemon of its own session; its pid and start ticks are reported."""
    if os.fork() == 0:
        os.setsid()
        leader = os.getpid()
        if os.fork() != 0:
            os._exit(0)
        wait_until(lambda: os.getppid() != leader, what="the leader's end")  # it would be swept, too
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        os.dup2(null, 1)
        os.write(report_fd, f"{os.getpid()} {own_start_ticks()};".encode())
        if program is not None:
            os.execve(program[0], program, dict(os.environ) if environment is None else environment)
        block_every_signal_and_sleep_in_c(null)  # its report would find nobody


def marked(body: Callable[[int], object], mark: Mark = MARK) -> Callable[[int], object]:
    """`body` in a settled child that carries the mark."""
    parent = os.getpid()

    def run(report_fd: int) -> None:
        settle_in(parent_pid=parent, keep_fds=[report_fd], mark=mark)
        body(report_fd)

    return run


def spawn(children: Table, sweeper: Sweeper, body: Callable[[int], object], mark: Mark = MARK) -> Child[str]:
    child = children.spawn(str(mark), raw(marked(body, mark)))
    sweeper.watch(mark, child.pid, child.start_ticks)
    return child


def stray_of(children: Table, child: Child[str]) -> Process:
    reported(children, child, b";")
    pid, ticks = children.reports(child).split(b";")[0].replace(b"S", b"").split()
    return Process(int(pid), int(ticks))


def sweep(sweeper: Sweeper, mark: Mark = MARK, late: float = 0.0) -> Swept:
    """Run passes until the attempt's family is done with."""

    def step() -> Swept | None:
        sweeper.run(time.clock_gettime(time.CLOCK_BOOTTIME) + late)
        return sweeper.take(mark, time.clock_gettime(time.CLOCK_BOOTTIME) + late)

    swept = wait_until(step, what="the end of the sweep")
    assert swept is not None
    return swept


def is_dead(process: Process) -> bool:
    return probe(*process) in (Liveness.GONE, Liveness.ZOMBIE)


@contextmanager
def killed_at_the_end(*, start_new_session: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A program that stays."""
    with subprocess.Popen(["/bin/sleep", TEN_MINUTES], start_new_session=start_new_session) as process:
        try:
            yield process
        finally:
            process.kill()
