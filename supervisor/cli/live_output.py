"""Reads what a running job of this box prints, from the file that its supervisor holds. Writes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from sqljobs.schema.printed import Printed
from sqljobs.schema.renderings import escaped, newline_decoder
from sqljobs.supervisor.liveness import boot_id, start_ticks_of
from sqljobs.supervisor.output import first_byte

_PIECE = 1 << 16


class CannotRead(Exception):
    """The output cannot be read from here; the text says where, or why."""


def open_live(job_id: int, printed: Printed) -> LiveOutput:
    """The output of an attempt whose child has begun. Raises `CannotRead`."""
    printer = printed.printer
    if printer is None or printed.pid is None:
        raise CannotRead(f"what attempt {printed.attempt} of job {job_id} prints is nowhere to be found")
    if printer.boot_id != boot_id() or start_ticks_of(printer.pid) != printer.start_ticks:
        raise CannotRead(f"job {job_id} runs on {printer.host}, and what it prints can be read only there")
    descriptor = _shared_file(printer.pid, printed.pid)
    if descriptor is None:
        raise CannotRead(
            f"what job {job_id} prints cannot be read by this user, or its process has closed all of its descriptors"
        )
    return LiveOutput(descriptor)


class LiveOutput:
    """What is kept of it, and then what comes. Close it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self._decoder = newline_decoder()

    def rest(self) -> Iterator[str]:
        """What is there by now and was not yet read, escaped, in pieces. What was dropped unread is counted."""
        end = os.fstat(self._descriptor).st_size
        if end < self._position:  # the job has cut it short: `> /dev/stderr`
            self._position = 0
        while self._position < end and (piece := self._read()):
            yield piece

    def _read(self) -> str:
        begin = first_byte(self._descriptor, self._position)
        raw = os.pread(self._descriptor, _PIECE, begin)
        # What is dropped while it is read looks like zeros: then the next turn begins behind it.
        if not raw or first_byte(self._descriptor, begin) != begin:
            return ""
        dropped, self._position = begin - self._position, begin + len(raw)
        note = f"... [{dropped} bytes cut]\n" if dropped else ""
        return note + escaped(self._decoder.decode(raw))

    def end(self) -> str:
        """What is left of a character or a line end that came in halves. Nothing more is read."""
        return escaped(self._decoder.decode(b"", final=True))

    def close(self) -> None:
        os.close(self._descriptor)


def _shared_file(supervisor: int, child: int) -> int | None:
    """The one file without a name that both hold and that is open for appending, which no other between them is."""
    held = {identity for _, identity in _unnamed_files(child)}
    for path, identity in _unnamed_files(supervisor):
        if identity in held and _appends(path) and (descriptor := _open(path, identity)) is not None:
            return descriptor
    return None


def _unnamed_files(pid: int) -> Iterator[tuple[str, tuple[int, int]]]:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:  # another user's, or gone
        return
    for number in numbers:
        try:
            status = os.stat(f"{folder}/{number}")
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
            yield f"{folder}/{number}", (status.st_dev, status.st_ino)


def _appends(path: str) -> bool:
    try:
        with open(path.replace("/fd/", "/fdinfo/"), encoding="ascii") as file:
            flags = next(line.split()[1] for line in file if line.startswith("flags:"))
    except (OSError, StopIteration):
        return False
    return bool(int(flags, 8) & os.O_APPEND)


def _open(path: str, identity: tuple[int, int]) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if (status.st_dev, status.st_ino) == identity:
        return descriptor
    os.close(descriptor)  # its number leads elsewhere by now
    return None
