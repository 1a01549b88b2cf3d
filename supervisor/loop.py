"""The one event loop of the supervisor: descriptors and signals to callbacks. No policy, no SQL, no threads."""

from __future__ import annotations

import selectors
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any


class Loop:
    """Waits for descriptors and signals; main thread only. Close it to give back all that it took over.

    `upkeep` is called before each waiting, and returns the longest that this may last (None: any)."""

    def __init__(self, upkeep: Callable[[], float | None] = lambda: None) -> None:
        # Not epoll: its set lives in the kernel, and a forked child's copy of a closed descriptor stays in it.
        self._selector = selectors.PollSelector()
        self._caught: dict[int, Any] = {}
        self._signals: list[int] = []
        self._wakeup: tuple[socket.socket, socket.socket] | None = None
        self._replaced_wakeup_fd = -1
        self._upkeep = upkeep

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `fd` is readable (a pidfd: when its process has ended), until `unwatch`.

        Raises KeyError when `fd` is watched already."""
        self._selector.register(fd, selectors.EVENT_READ, callback)

    def unwatch(self, fd: int) -> None:
        """Forget `fd`: before or right after it is closed, before its number can be given to another.

        Raises KeyError when it is not watched."""
        self._selector.unregister(fd)

    def run_once(self, timeout_seconds: float | None) -> int:
        """Wait until something is ready or the time is over (None: for ever), then call what is due, once each.
        Shorter, with nothing called, when the upkeep wants it.

        Returns how many callbacks were called and signals wait to be taken; at once while any signal does."""
        longest = self._upkeep()
        if longest is not None:
            timeout_seconds = longest if timeout_seconds is None else min(longest, timeout_seconds)
        if self._signals:
            timeout_seconds = 0
        called = 0
        for key, _ in self._selector.select(timeout_seconds):
            # An earlier callback may have unwatched this one, even given its number to another descriptor.
            if self._selector.get_map().get(key.fd) is key:
                called += 1
                key.data()
        return called + len(self._signals)

    def catch(self, signum: int) -> None:
        """From now on `signum` wakes the loop and is found in `take_signals`, instead of what it did before."""
        if self._wakeup is None:
            self._open_wakeup()
        if signum not in self._caught:
            self._caught[signum] = signal.signal(signum, _do_nothing)
            # An imported module, or whoever started us, may have blocked it.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})

    def take_signals(self) -> list[int]:
        """The caught signals since the last call, in the order of their arrival."""
        self._drain_wakeup()
        taken, self._signals = self._signals, []
        return taken

    def wake(self) -> None:
        """Make a waiting `run_once` return; may be called from any thread."""
        if self._wakeup is not None:
            with suppress(BlockingIOError):  # full: it will wake all the same
                self._wakeup[1].send(b"\0")

    def close(self) -> None:
        """Give back signals and wake-up descriptor as they were. Signals not yet taken are lost."""
        for signum, previous in self._caught.items():
            # None: a handler of C code, which Python can neither tell nor install.
            signal.signal(signum, signal.SIG_DFL if previous is None else previous)
        self._caught.clear()
        if self._wakeup is not None:
            signal.set_wakeup_fd(self._replaced_wakeup_fd)
            for end in self._wakeup:
                end.close()
            self._wakeup = None
        self._selector.close()

    def __enter__(self) -> Loop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_wakeup(self) -> None:
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self._wakeup = (reader, writer)
        self._replaced_wakeup_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self.watch(reader.fileno(), self._drain_wakeup)

    def _drain_wakeup(self) -> None:
        if self._wakeup is None:
            return
        try:
            numbers = self._wakeup[0].recv(65536)
        except BlockingIOError:
            return
        # Python writes the number of every signal that has a Python handler, not only of ours.
        self._signals.extend(number for number in numbers if number in self._caught)


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    """The number is in the wake-up socket already: the interpreter's C handler put it there."""
