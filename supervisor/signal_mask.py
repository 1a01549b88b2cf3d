"""Block all signals for a while. Sends none, handles none."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Within it no signal but SIGKILL and SIGSTOP reaches this thread; afterwards the mask is as it was."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # May raise what a handler raises, and has blocked then all the same.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
