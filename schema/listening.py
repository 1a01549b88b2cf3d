"""LISTEN on a connection of its own. Nothing here waits, but for the connection to be made; nothing is retried.

PostgreSQL through psycopg alone: other databases have no such thing, other drivers are polled for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqljobs.schema.failures import one_line
from sqljobs.schema.transactions import Database
from sqljobs.schema.wake import channel

TUPLES_OK, COMMAND_OK = 2, 1


class CannotListen(Exception):
    """This connection will never bring notifications; the message says why."""


class ListenLost(Exception):
    """The connection is gone, or could not be made; another may do better."""


class Listener:
    """One connection that listens to our channel once the server has said so.

    It is made like the engine's others, but is none of its pool's: a pool of one would be used up."""

    def __init__(self, database: Database) -> None:
        self._pool = database.engine.pool.recreate()
        self._fairy: Any = None
        self._pgconn: Any = None
        self._on_answer: Callable[[bytes], None] | None = None
        self._value = b""
        self.listening = False

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, listening or about to."""
        return self._pgconn is not None

    def open(self) -> None:
        """Connect and begin to ask; blocks at most for the connect timeout of the engine.

        Raises `ListenLost`, and `CannotListen` for a driver that is not psycopg."""
        try:
            self._fairy = self._pool.connect()
            driver: Any = self._fairy.driver_connection
            if not hasattr(driver, "pgconn"):
                raise CannotListen("only psycopg can be waited for (postgresql+psycopg:// in the URL)")
            driver.rollback()  # what an event of the engine may have begun; sends nothing where there is nothing
            self._pgconn = driver.pgconn
            self._ask(b"SELECT pg_backend_pid()", self._compare_pid)
        except CannotListen:
            self.close()
            raise
        except Exception as error:  # the engine's owner may have events of any kind at its connections
            self.close()
            raise ListenLost(one_line(error)) from error

    def fileno(self) -> int:
        """The descriptor that is readable when `take` has something to do."""
        return int(self._pgconn.socket)

    def take(self) -> list[str]:
        """The payloads that have come since the last call, without waiting.

        Raises `ListenLost` when the connection is gone, `CannotListen` when a pooler is found; it is closed then."""
        found: list[str] = []
        try:
            self._pgconn.consume_input()
            self._take_answers()
            while (notification := self._pgconn.notifies()) is not None:
                found.append(notification.extra.decode(errors="replace"))
        except (CannotListen, ListenLost):
            self.close()
            raise
        except Exception as error:  # the driver's, which is imported only where it is used
            self.close()
            raise ListenLost(one_line(error)) from error
        return found

    def close(self) -> None:
        """End the connection; may be called at any time."""
        fairy, self._fairy, self._pgconn = self._fairy, None, None
        self.listening, self._on_answer = False, None
        if fairy is not None:
            with suppress(Exception):  # it may be gone already
                fairy.invalidate()

    def _ask(self, query: bytes, on_answer: Callable[[bytes], None]) -> None:
        # Below the driver's own waiting, and so outside any transaction of the driver's making.
        self._on_answer = on_answer
        self._pgconn.send_query(query)
        self._pgconn.flush()

    def _take_answers(self) -> None:
        while not self._pgconn.is_busy():
            result = self._pgconn.get_result()
            if result is None:  # the answer is complete, or nothing was asked
                if self._on_answer is None:
                    return
                answered, self._on_answer = self._on_answer, None
                answered(self._value)
            elif result.status == TUPLES_OK:
                self._value = result.get_value(0, 0)
            elif result.status != COMMAND_OK:
                raise ListenLost(" ".join(result.error_message.decode(errors="replace").split()))

    def _compare_pid(self, value: bytes) -> None:
        # A pooler announces itself, or some session, at the connect; LISTEN would act on a session of everybody's.
        if int(value) != self._pgconn.backend_pid:
            raise CannotListen("a connection pooler stands between, which does not pass notifications on")
        self._ask(f'LISTEN "{channel()}"'.encode(), self._mark_listening)

    def _mark_listening(self, _value: bytes) -> None:
        self.listening = True
