"""The application's own code around each handler, in its child. It never changes how an attempt ends."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

from sqljobs.worker_runtime.job_log import log_hook

F = TypeVar("F", bound=Callable[[], object])
Hook = Callable[[], object]
Say = Callable[[str], object]

HOOK_SECONDS = 5.0


class HookTimeout(BaseException):
    """Raised in a hook that takes too long. No `Exception`, so that less code of the hook's own holds it up."""


@dataclass(frozen=True)
class _Registered:
    decorator: str
    function: FunctionType

    @property
    def code(self) -> CodeType:
        """As written: below decorators of its own, which share one code for all that they wrap."""
        inner: Any = inspect.unwrap(self.function)
        return inner.__code__ if isinstance(inner, FunctionType) else self.function.__code__

    def is_replaced_by(self, new: _Registered) -> bool:
        """Whether `new` is the same hook in a later run of its module; lines may have moved since, or the file."""
        mine, its = self.function, new.function
        if mine.__module__ != its.__module__ or mine is its:
            return mine is its and self.decorator == new.decorator
        module = sys.modules.get(mine.__module__)
        if module is not None and its.__globals__ is module.__dict__ is not mine.__globals__:  # pyright: ignore[reportAttributeAccessIssue]
            return True
        if (self.decorator, mine.__qualname__) != (new.decorator, its.__qualname__) or self.code is new.code:
            return False  # one code: made in a loop, and each of them counts
        is_other_file = self.code.co_filename != new.code.co_filename
        return is_other_file or self.code.co_firstlineno == new.code.co_firstlineno


_registered: list[_Registered] = []


def on_child_start(function: F) -> F:
    """Have this function, which takes no parameters, called in the process of each job before its handler.

    All that the process has registered are called, in this order. Each may take 5 seconds, and all together must leave
    some of the 30 within which a handler is to be reached. `current_job()` works. What one raises is logged on
    `sqljobs.job`, and the job goes on. Raises `TypeError` for anything but a plain function without parameters."""
    return _register("on_child_start", function)


def on_child_end(function: F) -> F:
    """The same when the end of the attempt is written, whatever it was; the last one registered comes first.

    Not where the process dies or is killed before that, nor where another supervisor has the job by now."""
    return _register("on_child_end", function)


def _register(decorator: str, function: F) -> F:
    global _registered
    if not isinstance(function, FunctionType):
        raise TypeError(f"@sqljobs.{decorator} goes on a function, not on a {type(function).__name__}")
    if parameters := ", ".join(inspect.signature(function).parameters):
        raise TypeError(
            f"@sqljobs.{decorator} goes on a function without parameters, but {function.__qualname__!r} takes"
            f" ({parameters}): it can ask sqljobs.current_job()"
        )
    inner = inspect.unwrap(function)
    if inspect.iscoroutinefunction(inner) or inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(
            f"@sqljobs.{decorator} goes on a plain function: a call of {function.__qualname__!r} would not run it"
        )
    new = _Registered(decorator, function)
    _registered = [*(old for old in _registered if not old.is_replaced_by(new)), new]
    return function  # pyright: ignore[reportReturnType] # what it is besides a plain function


def forget_hooks(module: str) -> None:
    """The module is about to be run again: what it registered before does not count."""
    global _registered
    _registered = [hook for hook in _registered if hook.function.__module__ != module]


def hooks(decorator: str) -> list[Hook]:
    """What was registered by it, in this order."""
    return [hook.function for hook in _registered if hook.decorator == decorator]


def run_start_hooks(say: Say) -> None:
    """Call them, in the main thread of the child. `say` prints a line of ours on the job's stderr."""
    run_hooks(hooks("on_child_start"), say, HOOK_SECONDS)


def run_end_hooks(say: Say) -> None:
    """The same for those of the end, where all signals are blocked."""
    run_hooks(reversed(hooks("on_child_end")), say, HOOK_SECONDS)


def run_hooks(given: Iterable[Hook], say: Say, seconds: float) -> None:
    """Call each; nothing escapes but the end of the process.

    One that takes longer than `seconds` is interrupted. Where it hangs in C code, or does not care, it is the
    supervisor that ends the process."""
    own_pid = os.getpid()
    for hook in given:
        alarm = _Alarm(seconds)
        error: BaseException | None = None
        alarm.arm()
        try:
            hook()
            alarm.armed = False
        except BaseException as raised:  # noqa: BLE001 - SystemExit and KeyboardInterrupt, too: the job goes on
            alarm.armed = False
            error = raised
        if os.getpid() != own_pid:
            os._exit(0)  # a copy that the hook forked and let return
        alarm.undo()
        error = alarm.rung if error is None else error
        if error is not None:
            log_hook(_name(hook), error, say)


def _name(hook: Hook) -> str:
    return f"{hook.__module__}.{hook.__qualname__}"


class _Alarm:
    """Raises `HookTimeout` in the main thread while `armed`: after `seconds`, and again if the hook goes on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.armed = False
        self.rung: HookTimeout | None = None

    def arm(self) -> None:
        """Before the hook. One signal that has come already is not ours, and is dropped."""
        self._handler = signal.getsignal(signal.SIGALRM)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, self._ring)
        self._blocked = signal.SIGALRM in signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        self._timer = signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
        self.armed = True

    def undo(self) -> None:
        """After it: timer, handler and mask as they were, but for a handler that the hook has set to stay."""
        is_ours = signal.getsignal(signal.SIGALRM) == self._ring
        if is_ours or signal.getitimer(signal.ITIMER_REAL)[1] == self._seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
        else:
            self._timer = signal.getitimer(signal.ITIMER_REAL)
        if self._blocked:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        if is_ours:
            # None: it was not of Python's making, and cannot be had back.
            signal.signal(signal.SIGALRM, signal.SIG_DFL if self._handler is None else self._handler)
        signal.setitimer(signal.ITIMER_REAL, *self._timer)

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if not self.armed:
            return
        self.rung = HookTimeout(f"it took longer than {self._seconds:g} s")
        raise self.rung
