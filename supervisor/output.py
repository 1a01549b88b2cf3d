"""What the jobs of this supervisor print: a file without a name for each attempt, kept short from here, its tail read.

Knows descriptors, not jobs. A job never waits for us: nobody has to read what it writes."""

from __future__ import annotations

import ctypes
import fcntl
import os
import tempfile
from contextlib import suppress

from sqljobs.schema.renderings import safe_tail
from sqljobs.supervisor.children import ForkFailed

KEPT_BYTES = 4 << 20
MOST_BYTES = 2 * KEPT_BYTES
TAIL_BYTES = 64 << 10
LOOK_SECONDS, BUSY_LOOK_SECONDS = 0.25, 0.05
# With less room than this a job that prints would soon fail for it.
ROOM_BYTES = 64 << 20
_BLOCK = 1 << 16
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_LIBC = ctypes.CDLL(None, use_errno=True)
# On 32 bits `fallocate` takes short offsets, and C libraries that always take long ones have no other.
_FALLOCATE = getattr(_LIBC, "fallocate64", _LIBC.fallocate)
_FALLOCATE.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Outputs:
    """The outputs of all running attempts, by a key of the caller's. Main thread only."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}
        self._sizes: dict[int, int] = {}

    def open(self, key: int) -> int:
        """A descriptor for the child's streams, open for appending; it stays ours to close. Raises `ForkFailed`."""
        try:
            descriptor = _open()
        except OSError as error:
            raise ForkFailed(error.errno, f"cannot open a file for what the job prints: {error.strerror}") from error
        self._files[key], self._sizes[key] = descriptor, 0
        return descriptor

    def look(self) -> float | None:
        """Keep all outputs short; returns the seconds after which to look again, None while there are none."""
        was_busy = False
        for key, descriptor in self._files.items():
            size = os.fstat(descriptor).st_size
            if size != self._sizes[key]:
                self._sizes[key] = size
                was_busy |= _trim(descriptor)
        if not self._files:
            return None
        return BUSY_LOOK_SECONDS if was_busy else LOOK_SECONDS

    def take(self, key: int) -> str | None:
        """The end of what was printed, as text that can be stored, and the file is gone. None when it is empty."""
        try:
            return _tail(self._files[key])
        except OSError as error:
            return f"[what it printed cannot be read: {error.strerror}]"
        finally:
            self.close(key)

    def close(self, key: int) -> None:
        """The file is gone, if there is one."""
        self._sizes.pop(key, None)
        if (descriptor := self._files.pop(key, None)) is not None:
            os.close(descriptor)


def _open() -> int:
    """A file in the folder for temporary files; in memory if there is none, or it has no room or punches no holes."""
    descriptor = -1
    try:
        flags = os.O_TMPFILE | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(tempfile.gettempdir(), flags, 0o600)
        _punch(descriptor, _BLOCK)
        disk = os.fstatvfs(descriptor)
        if disk.f_bavail * disk.f_frsize >= ROOM_BYTES:
            return descriptor
    except OSError:
        if descriptor < 0:
            return _open_in_memory()
    os.close(descriptor)
    return _open_in_memory()


def _open_in_memory() -> int:
    descriptor = os.memfd_create("sqljobs-output")
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    return descriptor


def _trim(descriptor: int) -> bool:
    """Give back all but the end, where much is kept; whether it was much."""
    status = os.fstat(descriptor)
    if status.st_blocks * 512 <= MOST_BYTES:
        return False
    # From the beginning each time: a job may have cut the file short (`> /dev/stderr`), and what it was is not kept.
    length = (status.st_size - KEPT_BYTES) // _BLOCK * _BLOCK
    if length > 0:
        try:
            _punch(descriptor, length)
        except OSError:
            os.ftruncate(descriptor, 0)  # those who append go on at the new end
    return True


def _punch(descriptor: int, length: int) -> None:
    if _FALLOCATE(descriptor, _KEEP_SIZE | _PUNCH_HOLE, 0, length) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def first_byte(descriptor: int, position: int = 0) -> int:
    """Where what is kept begins, at `position` or behind it."""
    with suppress(OSError):  # ENXIO: there is nothing behind it; EINVAL: the file system does not tell
        return os.lseek(descriptor, position, os.SEEK_DATA)
    return position


def _tail(descriptor: int) -> str | None:
    size = os.fstat(descriptor).st_size
    begin = first_byte(descriptor, max(0, size - TAIL_BYTES))
    raw = os.pread(descriptor, TAIL_BYTES, begin)
    return safe_tail(raw, before=begin, limit_bytes=TAIL_BYTES) if raw else None
