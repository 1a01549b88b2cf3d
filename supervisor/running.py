"""One attempt while its child runs, and what is known of it when the child is dead. Forks and writes nothing."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from signal import SIGKILL

from sqljobs.schema.claim import Lease
from sqljobs.schema.evidence import Evidence
from sqljobs.schema.outcomes import Outcome
from sqljobs.supervisor.children import Child, Ended, ForkFailed
from sqljobs.supervisor.crashes import cause_of_death, signal_name
from sqljobs.supervisor.kill_ladder import Ladder
from sqljobs.supervisor.oom_kills import Oom
from sqljobs.supervisor.swept import NOTHING_LEFT, Swept
from sqljobs.worker_runtime.child import FINALIZED
from sqljobs.worker_runtime.process_mark import Mark, mark_of
from sqljobs.worker_runtime.registry import JobType
from sqljobs.worker_runtime.stack_dump import StackDump
from sqljobs.worker_runtime.stop_request import StopRequest


@dataclass(frozen=True)
class Running:
    """One attempt in a child. `ladder` says whether, and how far, it is being stopped; `why` in a line, where more is
    known than the reason; `held` the bytes that it was found with over its limit."""

    lease: Lease
    job_type: JobType
    child: Child[int]
    request: StopRequest
    dump: StackDump
    ladder: Ladder = field(default_factory=Ladder)
    why: str | None = None
    held: int = 0

    @property
    def mark(self) -> Mark:
        """What its processes carry."""
        return mark_of(self.lease.fence)

    @property
    def overdue_at(self) -> float | None:
        """When its timeout is over, on the boot-time clock."""
        return self.child.forked_at + self.lease.timeout if self.lease.timeout else None


@dataclass(frozen=True)
class Death:
    """An attempt whose process is gone: the evidence, and what to write if the child has not written its end, which
    `is_reported` if it says that it has.

    `strays`: what became of the processes that it left behind."""

    lease: Lease
    job_type: JobType
    evidence: Evidence
    outcome: Outcome
    is_reported: bool
    strays: Swept = NOTHING_LEFT

    def with_rest(self, strays: Swept, log_tail: str | None) -> Death:
        """The same with what is known when all of its processes are gone."""
        return replace(self, strays=strays, evidence=replace(self.evidence, log_tail=log_tail))


def open_lines(undo: ExitStack, *, for_a_fork: bool = True) -> tuple[StopRequest, StackDump]:
    """What connects a child to be with us, besides its pipe; `undo` gives it back. Raises `ForkFailed`."""
    try:
        request = StopRequest() if for_a_fork else StopRequest.in_a_file()
        undo.callback(request.close)
        dump = StackDump()
        undo.callback(dump.close)
    except OSError as error:
        raise ForkFailed(error.errno, f"cannot start a child process: {error.strerror}") from error
    return request, dump


def over_limit(held: int, lease: Lease) -> str:
    """Why an attempt is stopped whose processes hold so many bytes."""
    limit = lease.memory or 0
    return f"stopped: its processes held {_mib(held)}, more than the memory limit of {_mib(limit)}"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def is_unexplained(running: Running, ended: Ended[int]) -> bool:
    """Whether it died of a SIGKILL that we have not sent."""
    return ended.signal == SIGKILL and running.ladder.reason is None


def death_of(running: Running, ended: Ended[int], oom: Oom = Oom.NO) -> Death:
    """The end of a running attempt, as its child's end shows it; takes the dump of its stacks, and closes it.

    `oom`: what is known of a SIGKILL that is not ours."""
    stack_dump = running.dump.text()
    running.dump.close()
    running.request.close()
    evidence = Evidence(
        fence=running.lease.fence,
        pid=ended.child.pid,
        start_ticks=ended.child.start_ticks,
        exit_code=ended.exit_code,
        signal=None if ended.signal is None else signal_name(ended.signal),
        cpu_seconds=ended.cpu_seconds,
        max_rss_bytes=max(ended.max_rss_bytes, running.held),
        stack_dump=stack_dump,
    )
    outcome = cause_of_death(
        exit_code=ended.exit_code,
        signal=ended.signal,
        reports=ended.reports,
        asked=running.ladder.reason,
        asked_text=running.why,
        oom=oom,
    )
    if running.job_type.is_fatal(outcome.cause):
        outcome = replace(outcome, fatal=True)
    return Death(running.lease, running.job_type, evidence, outcome, FINALIZED in ended.reports)
