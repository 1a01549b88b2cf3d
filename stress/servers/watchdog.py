"""A process that outlives a killed test session to end what it started: run as a script, imports nothing of ours.

Arguments: pid of the test session (our parent), its private folder. When the parent is gone, every
process that names the folder on its command line is ended, and the folder removed.
"""

import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path


def users_of(folder: str) -> list[int]:
    """Pids of the processes, but ours, whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder) in command:
            found.append(int(entry.name))
    return found


def wait_for_end_of(parent: int) -> None:
    """Return when the process `parent`, which must be our parent, has ended."""
    try:
        descriptor = os.pidfd_open(parent)
    except ProcessLookupError:
        return
    # Once we have a parent other than this one, the pid may have been given to a stranger.
    if os.getppid() == parent:
        select.select([descriptor], [], [])
    os.close(descriptor)


def end_all(folder: str, patience: float = 5.0) -> None:
    """Ask the users of the folder to end, at once (SIGQUIT), and kill them after `patience` seconds.

    Looks again until two looks in a row find none, as one may have been between fork and exec.
    """
    give_up = time.monotonic() + patience
    looks_without_any = 0
    asked: set[int] = set()
    while looks_without_any < 2:
        pids = users_of(folder)
        looks_without_any = 0 if pids else looks_without_any + 1
        for pid in pids:
            late = time.monotonic() > give_up
            if pid in asked and not late:
                continue
            asked.add(pid)
            try:
                os.kill(pid, signal.SIGKILL if late else signal.SIGQUIT)
            except ProcessLookupError:
                continue
        time.sleep(0.1)


def main(parent: int, folder: str) -> None:
    """Watch, then clear up."""
    wait_for_end_of(parent)
    end_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
