"""Threads that a test runs step by step, through the hook that our own transactions announce their steps to."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from sqljobs.schema.steps import set_hook

T = TypeVar("T")
PATIENCE_SECONDS = 60.0


class Actor(Generic[T]):
    """One thread. It runs only when told to, and as far as it is told to."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._changed = threading.Condition()
        self._stop_at: str | None = None
        self._stands_at: str | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._ended = False
        self.passed: list[str] = []

    @property
    def ident(self) -> int | None:
        return self._thread.ident

    @property
    def has_ended(self) -> bool:
        return self._ended

    def go(self, *, until: str | None = None) -> None:
        """Let it run, up to just before the step `until`, without waiting for it to get there."""
        with self._changed:
            self._stop_at = until
            self._stands_at = None
            self._changed.notify_all()
        if self._thread.ident is None:
            self._thread.start()

    def until(self, step: str) -> None:
        """Let it run until it is about to take `step`; fails if it ends before that."""
        self.go(until=step)
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._stands_at == step, PATIENCE_SECONDS)
        if self._stands_at != step:
            raise AssertionError(f"never came to {step}; passed {self.passed}") from self._error

    def finish(self) -> T:
        """Let it run to its end; returns what it returned, or raises what it raised."""
        self.go()
        self._thread.join(PATIENCE_SECONDS)
        assert self._ended, f"still at it after {self.passed}"
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # it has ended without an error

    def passes(self, step: str) -> None:
        """Called by its own thread at each step."""
        with self._changed:
            self.passed.append(step)
            if step != self._stop_at:
                return
            self._stands_at = step
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._stands_at is None, PATIENCE_SECONDS):
                raise AssertionError(f"left standing at {step}")

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the end
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Stage:
    """All actors of one test."""

    def __init__(self) -> None:
        self._actors: list[Actor[object]] = []

    def actor(self, work: Callable[[], T]) -> Actor[T]:
        """An actor that has yet to start."""
        actor = Actor(work)
        self._actors.append(actor)  # type: ignore[arg-type]  # read as objects only
        return actor

    def __enter__(self) -> "Stage":
        self._former = set_hook(self._on_step)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for actor in self._actors:
            if actor.ident is not None and not actor.has_ended:
                actor.go()
        for actor in self._actors:
            if actor.ident is not None:
                actor._thread.join(PATIENCE_SECONDS)
        set_hook(self._former)

    def _on_step(self, name: str) -> None:
        ident = threading.get_ident()
        for actor in self._actors:
            if actor.ident == ident:
                actor.passes(name)
