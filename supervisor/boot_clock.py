"""The one clock that supervisors measure time by: no step of a wall clock moves it."""

from __future__ import annotations

import time


def boottime() -> float:
    """Seconds since boot; the time that a host was suspended is included (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
