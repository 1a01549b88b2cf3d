"""A supervisor in a fresh process, in place of one that must not fork here: other threads may hold any lock at that
moment, and the child would wait for it for ever. This process only waits, and passes on what it is told."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine

from sqljobs.schema.engine import parse_url
from sqljobs.schema.errors import Error
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.child_process import Ended
from sqljobs.supervisor.children import OWN_FAULT, Children
from sqljobs.supervisor.handler_modules import Handlers, by_name
from sqljobs.supervisor.in_charge import SIGNALS
from sqljobs.supervisor.inquiry import answer_of, end_all
from sqljobs.supervisor.interpreters import interpreter
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.shutdown import Shutdown
from sqljobs.supervisor.start_methods import StartMethod

_WAY_OUT = "give start_method='spawn', or begin before the threads do"


class StandIn:
    """What one supervisor was made of, so that another process can be the same. `options`: its keywords, checked."""

    def __init__(
        self,
        method: StartMethod,
        url_or_engine: str | Engine,
        handlers: Sequence[Handlers],
        app_dir: str,
        options: Mapping[str, Any],
    ) -> None:
        self._method = method
        self._url: str | None = None
        if not isinstance(url_or_engine, Engine):
            self._url = parse_url(url_or_engine).render_as_string(hide_password=False)
        self._handlers = handlers
        self._app_dir = os.path.abspath(app_dir)
        self._options = {name: _plain(value) for name, value in options.items()}

    def is_needed(self) -> bool:
        """Whether this process must not fork; not for another thread than the main one, which is refused anyway."""
        return threading.current_thread() is threading.main_thread() and bool(self._method.threads_in_the_way())

    def refuse_this_thread_and_others(self) -> None:
        """Raise `Error` in any but the main thread, and where `is_needed`."""
        if threading.current_thread() is not threading.main_thread():
            raise Error("a supervisor runs in the main thread: its children would die with any other")
        if threads := self._method.threads_in_the_way():
            raise Error(f"a fork is refused while other threads run ({', '.join(threads)}): {_WAY_OUT}; or call run()")

    def run(self, database: Database, loop: Loop, shutdown: Shutdown, endings: Counter[str]) -> int:
        """Be the supervisor in a fresh process; returns its exit code, 128 and the signal's number where it was killed.

        Raises what it raises of ours, and `Error` where it cannot be given the database."""
        if self._url is None:
            threads = ", ".join(self._method.threads_in_the_way())
            raise Error(
                f"a fork is refused while other threads run ({threads}), and a fresh process cannot be given an Engine:"
                f" give the database's URL; or {_WAY_OUT}"
            )
        told = {
            "url": self._url,
            "handlers": by_name(self._handlers),
            "app_dir": self._app_dir,
            "options": self._options,
        }
        database.engine.dispose()  # sessions are counted for one supervisor
        ended = _wait_for(told, loop, shutdown)
        answer = answer_of(ended) or {}
        endings.update(answer.get("endings", {}))
        if ended.signal is not None:
            return 128 + ended.signal
        return int(answer.get("code", OWN_FAULT)) if ended.exit_code is None else ended.exit_code


def _wait_for(told: Mapping[str, Any], loop: Loop, shutdown: Shutdown) -> Ended[str]:
    for caught in SIGNALS:
        loop.catch(caught)
    children: Children[str] = Children()
    # Blocked until it catches them itself, and out of the terminal's group: it would get each Ctrl-C twice.
    with interpreter("supervisor", told, blocked=SIGNALS, leads_session=False) as program:
        child = children.execute("supervisor", program)
    loop.watch(child.pidfd, lambda: None)
    is_told = False
    try:
        while True:
            for number in loop.take_signals():
                children.signal(child, number, group=False)
            if shutdown.begun and not is_told:
                is_told = children.signal(child, signal.SIGTERM, group=False)
            for ended in children.reap():
                return ended
            loop.run_once(None)
    finally:
        end_all(children)  # where an exception is on its way


def _plain(value: Any) -> Any:
    """A keyword as JSON takes it."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
