"""What a job prints, on the side of the job: streams that lose a line sooner than the job, and the flush at its end."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_BY_LINE = 1
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def identity(descriptor: int) -> tuple[int, int] | None:
    """Which file a descriptor leads to; None: it is closed. A handler may close any, and open others in its place."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def line_writer(descriptor: int, output_fd: int | None) -> TextIOWrapper:
    """Text to a descriptor, by line, since a job that is killed flushes nothing.

    Lenient: a job does not fail because a name that it prints is not valid text, nor for a full disk while the
    descriptor leads to `output_fd`."""
    raw = FileIO(descriptor, "w", closefd=False) if output_fd is None else _Output(descriptor, identity(output_fd))
    return TextIOWrapper(BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True)


class _Output(FileIO):
    def __init__(self, descriptor: int, captured: tuple[int, int] | None) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._captured = captured

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # Where the handler has led the stream to a file of its own, it shall know.
            if error.errno not in _NO_ROOM or identity(self.fileno()) != self._captured:
                raise
            return memoryview(data).nbytes


def line_buffer_c_streams() -> None:
    """Forget what the parent's C code has yet to print, and let ours print by line: into a file it would by block."""
    streams = {}
    for name in ("stdout", "stderr"):
        with suppress(ValueError):  # a C library that keeps them elsewhere
            streams[name] = ctypes.c_void_p.in_dll(_LIBC, name)
            _LIBC.__fpurge(streams[name])
    if "stdout" in streams:
        _LIBC.setvbuf(streams["stdout"], None, _BY_LINE, ctypes.c_size_t(0))


class Streams:
    """The standard descriptors of a child, as they were before its handler ran. `output_fd` as in `settle_in`."""

    def __init__(self, output_fd: int | None) -> None:
        self._output_fd = -1 if output_fd is None else output_fd
        self._identity = identity(self._output_fd)

    def refill(self) -> None:
        """Open what the handler has closed: else our connection would take its number, and a thread print into it."""
        closed = [number for number in range(3) if identity(number) is None]
        for number in closed:
            is_ours = number > 0 and self._identity is not None and identity(self._output_fd) == self._identity
            target = self._output_fd if is_ours else os.open(os.devnull, os.O_RDWR)
            if target != number:
                os.dup2(target, number)
                if not is_ours:
                    os.close(target)

    def say(self, line: str) -> None:
        """A line of our own, whatever the handler has made of `sys.stderr`."""
        with suppress(OSError):
            os.write(2, f"sqljobs: {line}\n".encode("utf-8", "backslashreplace"))


def flush_all() -> None:
    """Write what Python's streams, its logging and C code hold back. What cannot be written is lost, the job is not.

    Runs the handler's code (its streams, its log handlers), which may hang: after the end is written, when the
    supervisor stops a process that stays, and nothing depends on it."""
    flushes: list[Callable[[], object]] = [
        lambda: sys.stdout.flush(),
        lambda: sys.stderr.flush(),
        logging.shutdown,
        lambda: _LIBC.fflush(None),
    ]
    for flush in flushes:
        try:
            flush()
        except BaseException:  # noqa: BLE001 - whatever the handler left there
            continue
