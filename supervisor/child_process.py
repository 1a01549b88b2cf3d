"""What there is to know of one child process: what it is to run, how it was started, how it ended. Starts none."""

from __future__ import annotations

import signal
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

REPORT_FD = 3


class ThreadsAlive(RuntimeError):
    """A fork was refused: the child would inherit locks held by threads that it does not have."""


class ForkFailed(OSError):
    """The kernel refused a process, or what is needed to watch over it; nothing was left behind."""


@dataclass(frozen=True)
class Program:
    """A program to be started in a process of its own.

    `descriptors`: what it inherits, by the number that it will have there; `REPORT_FD` is its pipe for reports, and 0,
    1 and 2 are this process's unless named. `blocked`: the signals that it starts with blocked. `leads_session`: at
    the head of a session of its own, else of a process group in this one."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    descriptors: Mapping[int, int] = field(default_factory=dict)
    blocked: Collection[int] = field(default_factory=signal.valid_signals)
    leads_session: bool = True


@dataclass(frozen=True)
class Child(Generic[K]):
    """A process of ours, not yet reaped. `forked_at`: CLOCK_BOOTTIME in seconds, just before its start.

    `pidfd` becomes readable when the process ends; `report_fd` belongs to `Children`."""

    key: K
    pid: int
    start_ticks: int
    pidfd: int
    report_fd: int
    forked_at: float


@dataclass(frozen=True)
class Ended(Generic[K]):
    """How a child ended. Both `exit_code` and `signal` None: the status was lost to other code in this process.

    `cpu_seconds` and `max_rss_bytes` (the largest process, pages shared with the parent included) cover the child
    and the descendants that it waited for. `child.pidfd` is closed: unwatch it before anything is opened."""

    child: Child[K]
    exit_code: int | None
    signal: int | None
    cpu_seconds: float
    max_rss_bytes: int
    reports: bytes
