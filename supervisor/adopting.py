"""While it lasts, orphans of this process's tree become its children, and not those of init. Touches no process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqljobs.supervisor.sightings import sightings
from sqljobs.supervisor.strays import Adopter

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


@contextmanager
def adopting() -> Iterator[Adopter]:
    """Make this process a subreaper; afterwards it is what it was. Children do not inherit it."""
    before = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    # Looked for before: an orphan that comes in between must not be taken for one of the children that were there.
    own = os.getpid()
    spared = frozenset(one.process for one in sightings() if one.ppid == own)
    _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    try:
        yield Adopter(own, os.getsid(0), spared)
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(before.value))


def _prctl(option: int, argument: object) -> None:
    if _LIBC.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
