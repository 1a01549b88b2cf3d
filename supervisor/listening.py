"""Keeps this supervisor listening where the database can notify: connects, proves that it hears, comes back when lost.

Decides and logs; waits for nothing but the connection, and never fails the supervisor: polling finds all jobs, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqljobs.schema.listening import CannotListen, Listener, ListenLost
from sqljobs.schema.transactions import Database
from sqljobs.schema.wake import LOOK
from sqljobs.supervisor.loop import Loop

ECHO_SECONDS = 2.0  # the least time that an echo has to come back
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0  # a connection that lasted so long was a good one: the next is tried at once
LOG_SECONDS = 30.0


class Listening:
    """One supervisor's ear. `clock`: seconds on the boot-time clock.

    With each heartbeat goes an echo, a notification to ourselves: while it does not come back, `mode` is `poll`, for a
    connection may be dead without showing it."""

    def __init__(self, database: Database, supervisor_id: str, log: Any, clock: Callable[[], float]) -> None:
        self._listener = Listener(database) if database.dialect.name == "postgresql" else None
        self._id = supervisor_id
        self._log = log
        self._clock = clock
        self._watched: tuple[Loop, int] | None = None
        self._echoes = 0
        self._token: str | None = None
        self._token_at = 0.0
        self._heard_at: float | None = None
        self._asked_at = 0.0
        self._published = "poll"
        self._failures = 0
        self._logged_at: float | None = None
        self._is_lost = False
        self._connect_at: float | None = None

    @property
    def mode(self) -> str:
        """`listen` while notifications are known to arrive, else `poll`."""
        return "poll" if self._heard_at is None else "listen"

    @property
    def wants_heartbeat(self) -> bool:
        """Whether a heartbeat ahead of its time would tell others, or us, something new."""
        unproven = self._listener is not None and self._listener.listening and self._heard_at is None
        return (unproven and self._token is None) or self._published != self.mode

    def attend(self) -> None:
        """Call when the database has just answered: connect if there is no connection and one is due."""
        if self._listener is None or self._listener.is_open:
            return
        if self._connect_at is not None and self._clock() < self._connect_at:
            return
        try:
            self._listener.open()
            self._asked_at = self._clock()
        except ListenLost as error:
            self._lose(str(error))
        except CannotListen as error:
            self._give_up(str(error))

    def next_due(self) -> float | None:
        """When `attend` will connect; None before its first call, too."""
        return None if self._listener is None or self._listener.is_open else self._connect_at

    def watch(self, loop: Loop, heard: Callable[[], None]) -> None:
        """Have `heard` called when there is something to take; `unwatch` ends that."""
        if self._watched is None and self._listener is not None and self._listener.is_open:
            self._watched = (loop, self._listener.fileno())
            loop.watch(self._watched[1], heard)

    def unwatch(self) -> None:
        """Leave what comes where it is."""
        if self._watched is not None:
            loop, descriptor = self._watched
            self._watched = None
            loop.unwatch(descriptor)

    def take(self) -> bool:
        """Take what has come, without waiting; returns whether the queue, or this object, is to be looked at."""
        if self._listener is None or not self._listener.is_open:
            return False
        try:
            payloads = self._listener.take()
        except ListenLost as error:
            self._lose(str(error))
            return True
        except CannotListen as error:
            self._give_up(str(error))
            return False
        if self._token is not None and self._token in payloads:
            self._prove()
        # A LISTEN that has just begun is unproven, and so wants a turn: what was committed before has notified nobody.
        return LOOK in payloads or self.wants_heartbeat

    def next_token(self) -> str | None:
        """Before a heartbeat: the echo to send with it. Judges the one before, and whether the LISTEN was answered."""
        self.take()  # it may find out that there is nothing to listen to
        if self._listener is None:
            return None
        asked_at = self._token_at if self._token is not None else self._asked_at
        unanswered = self._token is not None or (self._listener.is_open and not self._listener.listening)
        if unanswered and self._clock() - asked_at >= ECHO_SECONDS:
            self._lose("notifications do not arrive")
        if self._token is not None or not self._listener.listening:
            return None
        self._echoes += 1
        return f"{self._id}/{self._echoes}"

    def sent(self, mode: str, token: str | None) -> None:
        """A heartbeat that said `mode` and carried `token` is committed."""
        self._published = mode
        if token is not None:
            self._token, self._token_at = token, self._clock()

    def close(self) -> None:
        """Listen no more."""
        self.unwatch()
        if self._listener is not None:
            self._listener.close()
        self._token = self._heard_at = None

    def _prove(self) -> None:
        self._token = None
        if self._heard_at is None:
            self._heard_at = self._clock()
            self._log.info("listening for notifications" + (" again" if self._is_lost else ""))
            self._is_lost = False

    def _lose(self, why: str) -> None:
        now = self._clock()
        steady = self._heard_at is not None and now - self._heard_at >= STEADY_SECONDS
        self._failures = 1 if steady else self._failures + 1
        self.close()
        self._connect_at = now + _pause(self._failures)
        if self._logged_at is None or now - self._logged_at >= LOG_SECONDS:
            self._logged_at, self._is_lost = now, True
            self._log.warning("no notifications from the database; polling until they are back", error=why)

    def _give_up(self, why: str) -> None:
        self.close()
        self._listener = None
        self._log.warning("this supervisor polls the database: it cannot be notified", why=why)


def _pause(failures: int) -> float:
    """Seconds before the next connection: none after the first failure, then doubling."""
    return 0.0 if failures == 1 else min(LONGEST_PAUSE_SECONDS, 2.0 ** min(failures - 2, 10))
