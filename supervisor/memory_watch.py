"""Who holds more memory than its job may: one look at all limited process trees, at a pace that costs little.

Decides nothing but the pace; the numbers are read by liveness, the processes are found by sightings."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqljobs.supervisor.liveness import proportional_bytes, resident_bytes
from sqljobs.supervisor.sightings import Process, Sighting, marks_of, sightings
from sqljobs.worker_runtime.process_mark import Mark

LOOK_SECONDS = 0.25
# A look reads all of /proc; so it takes at most a twentieth of one CPU. But a tree that grows must be seen in time.
_REST = 20
LONGEST_PAUSE = 3.0


class Limited(NamedTuple):
    """The child of a job with a memory limit, in bytes. `known`: processes that are known to be of the job."""

    pid: int
    mark: Mark
    limit: int
    known: Collection[Process] = ()


class MemoryWatch:
    """Looks at the trees of limited children, each time `next_due` says so."""

    def __init__(self) -> None:
        self._next = 0.0

    def next_due(self, *, wanted: bool) -> float | None:
        """When to look, on the boot-time clock; None while there is no limit to watch."""
        return self._next if wanted else None

    def over(self, now: float, limited: Mapping[int, Limited]) -> dict[int, int]:
        """Job id -> bytes, for those that hold more than they may: resident memory of the whole tree, pages that
        processes share, with the supervisor too, counted once. Empty while no look is due."""
        if not limited or now < self._next:
            return {}
        began = time.thread_time()  # on a busy machine a look lasts long and costs little
        seen = sightings()
        found = {}
        for job_id, one in limited.items():
            tree = members(one, seen, os.getpid())
            # The sum counts shared pages once for each process: cheap, and never too low.
            if sum(resident_bytes(process.process.pid) for process in tree) > one.limit:
                held = sum(_held(process) for process in tree)
                if held > one.limit:
                    found[job_id] = held
        pause = max(LOOK_SECONDS, _REST * (time.thread_time() - began))
        self._next = now + min(pause, LONGEST_PAUSE)
        return found


def members(one: Limited, seen: Sequence[Sighting], adopter: int) -> list[Sighting]:
    """The child, its session, what is `known`, all descendants of these, and what of it was adopted by the process
    `adopter`."""
    children: dict[int, list[Sighting]] = {}
    roots = []
    for process in seen:
        children.setdefault(process.ppid, []).append(process)
        if one.pid in (process.process.pid, process.session) or process.process in one.known:
            roots.append(process)
    roots += [orphan for orphan in children.get(adopter, ()) if orphan not in roots and _is_of(orphan, one, adopter)]
    found: dict[int, Sighting] = {}
    while roots:
        process = roots.pop()
        if process.process.pid not in found:
            found[process.process.pid] = process
            roots += children.get(process.process.pid, ())
    return [process for process in found.values() if process.is_alive]


def _is_of(orphan: Sighting, one: Limited, adopter: int) -> bool:
    # Our own children lead sessions of their own, and are the roots of other trees.
    return orphan.process.pid != adopter and one.mark in (marks_of(orphan) or ())


def _held(process: Sighting) -> int:
    # Reading the memory of a process that hangs in the kernel may hang, too.
    return resident_bytes(process.process.pid) if process.state == "D" else proportional_bytes(process.process.pid)
