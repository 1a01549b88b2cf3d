"""The stacks of all threads of a child that is being stopped: written by the child's C code, read by the parent."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import resource
import signal
import tempfile

# A real-time signal, which nothing else sends; its C handler needs neither the interpreter's lock nor memory.
DUMP_SIGNAL = signal.SIGRTMIN + 7
DUMP_BYTES = 64 * 1024
# Where a handler that closes every descriptor, and opens files of its own, is not likely to come.
_HIGH = 900


class StackDump:
    """A nameless file, made by the parent before the fork. Raises OSError where there is no descriptor for it."""

    def __init__(self, descriptor: int | None = None) -> None:
        """`descriptor`: of such a file, in a program that has inherited it."""
        self.descriptor = nameless_file("stacks") if descriptor is None else descriptor

    def listen(self) -> None:
        """In the child, once: from now on `DUMP_SIGNAL` writes the stacks, whatever the interpreter is at."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        high = _HIGH if limit == resource.RLIM_INFINITY else min(_HIGH, limit - 1)
        with contextlib.suppress(OSError):  # all are taken there: it stays where it is
            moved = fcntl.fcntl(self.descriptor, fcntl.F_DUPFD_CLOEXEC, high)
            os.close(self.descriptor)
            self.descriptor = moved
        faulthandler.register(DUMP_SIGNAL, file=self.descriptor, all_threads=True)

    def text(self) -> str | None:
        """In the parent, after the child's death: what was dumped, at most its last 64 KiB; None where nothing was."""
        size = os.fstat(self.descriptor).st_size
        start = max(0, size - DUMP_BYTES)
        dumped = os.pread(self.descriptor, DUMP_BYTES, start).decode("ascii", "backslashreplace").replace("\0", "\\0")
        cut = f"[{start} bytes cut]\n" if start else ""
        return cut + dumped if dumped else None

    def close(self) -> None:
        os.close(self.descriptor)


def nameless_file(what: str) -> int:
    """A descriptor of an empty file that goes with its last descriptor; `what` shows in /proc. Raises OSError."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(PermissionError, NotImplementedError):
            return os.memfd_create(what, os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # where a policy forbids files in memory
        return fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)
