"""Whether the kernel has just killed a process of ours for want of memory: its own counters say it."""

from __future__ import annotations

import os
from collections import deque
from enum import StrEnum

# The memory of a large process takes a while to be freed, and only then it is dead.
WINDOW = 10.0
_CGROUPS = "/sys/fs/cgroup"
_MACHINE = "/proc/vmstat"


class Oom(StrEnum):
    """How sure it is that a SIGKILL was the kernel's."""

    NO = "no"
    PERHAPS = "perhaps"  # somewhere on the machine the kernel has killed something
    SURE = "sure"  # in our own control group, as many as have died


class OomKills:
    """The counter of our control group, or where it has none that of the machine."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path or _counter_file()
        self._is_ours = self._path != _MACHINE
        self._moments: deque[float] = deque()
        self._last = self._count() or 0

    def look(self, now: float) -> None:
        """Note what has been killed since the last look. `now`: on any clock that does not jump."""
        count = self._count()
        if count is None:
            return
        self._moments += [now] * max(0, count - self._last)
        self._last = count
        while self._moments and self._moments[0] < now - WINDOW:
            self._moments.popleft()

    def explain(self, deaths: int) -> Oom:
        """What so many deaths by SIGKILL, nobody's that we know, were; each kill explains one death."""
        seen = len(self._moments)
        if not deaths or not seen:
            return Oom.NO
        for _ in range(min(deaths, seen)):
            self._moments.popleft()
        return Oom.SURE if self._is_ours and seen >= deaths else Oom.PERHAPS

    def _count(self) -> int | None:
        try:
            with open(self._path, encoding="ascii") as file:
                found = [line.split()[1] for line in file if line.startswith("oom_kill ")]
        except OSError:  # the group is gone, or /proc is not to be read: nothing is known
            return None
        return int(found[0]) if found else None


def _counter_file() -> str:
    """`memory.events` of our group (version 2), `memory.oom_control` (version 1), or /proc/vmstat."""
    for path in _own_counters():
        if os.path.exists(path):
            return path
    return _MACHINE


def _own_counters() -> list[str]:
    found = []
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            groups = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    for _, controllers, path in groups:
        if "memory" in controllers.split(","):
            found += [f"{_CGROUPS}/memory{path}/memory.oom_control", f"{_CGROUPS}/memory/memory.oom_control"]
        elif not controllers:
            found.append(f"{_CGROUPS}{path.rstrip('/')}/memory.events")
    return found
