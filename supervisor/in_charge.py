"""While a supervisor runs, its process is its own: signals, orphans and what the garbage collector walks."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqljobs.schema.errors import BadHandlers
from sqljobs.supervisor.adopting import adopting
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.sweeping import Sweeper

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)


@contextmanager
def in_charge(upkeep: Callable[[], float | None], sweeper: Sweeper) -> Iterator[Loop]:
    """A loop that catches the signals of a supervisor; afterwards the process is what it was."""
    with Loop(upkeep) as loop, adopting() as adopter:
        sweeper.adopt(adopter)
        # Before there is a row of ours that a signal could leave behind.
        for number in SIGNALS:
            loop.catch(number)
        # What is loaded by now stays: children need not walk, and so copy, it in their garbage collections.
        gc.collect()
        gc.freeze()
        try:
            yield loop
        finally:
            sweeper.adopt(None)
            gc.unfreeze()


def refuse_shared(path: str | None) -> None:
    """Raise `BadHandlers` for a file of SQLite's that this process has open, which its children would share."""
    if path is not None:
        raise BadHandlers(f"a connection to {path} is open, which no child can share: close it, or open it in the job")
