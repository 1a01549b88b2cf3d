"""What every kind of test server can do. Must not know any one database."""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Literal

Kind = Literal["sqlite", "postgresql", "mariadb", "mysql"]
KINDS: tuple[Kind, ...] = ("sqlite", "postgresql", "mariadb", "mysql")

StopMode = Literal["polite", "immediate"]

USER = "sqljobs"
PASSWORD = "sqljobs-test"


class ServerUnavailable(Exception):
    """The programs of this kind of server are not installed; the message says what to do."""


class ServerFailed(Exception):
    """A server did not start or stop; the message holds the end of its log."""


def keeps_fsync() -> bool:
    """Whether the servers shall flush each commit to the disk (SQLJOBS_TEST_FSYNC=1)."""
    return os.environ.get("SQLJOBS_TEST_FSYNC") == "1"


class Server(ABC):
    """One database server of this test session. Not thread-safe, except for `new_database`.

    `start` may be called again while it runs. A server that was stopped keeps its data and its port.
    """

    kind: ClassVar[Kind]

    def __init__(self, folder: Path) -> None:
        """`folder` is this server's own, empty or not yet there; nothing is started."""
        self.folder = folder

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """Process id of the server; None while it is down, and always for SQLite, which has no process."""

    @abstractmethod
    def version(self) -> tuple[int, ...]:
        """Version of the running server, such as (15, 18)."""

    @abstractmethod
    def launch(self) -> None:
        """Begin to start the server if it is down, without waiting. ServerUnavailable, ServerFailed."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Return when the launched server answers queries. ServerFailed when it ends or takes too long."""

    @abstractmethod
    def stop(self, mode: StopMode = "polite") -> None:
        """Stop the server if it runs: `polite` ends clients and checkpoints, `immediate` is a crash.

        Returns when the process is gone. SQLite has nothing to stop.
        """

    @abstractmethod
    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the server's log."""

    @abstractmethod
    def new_database(self) -> str:
        """Create an empty database and return its SQLAlchemy URL; the server must be up."""

    @abstractmethod
    def drop_database(self, url: str) -> None:
        """Remove a database of `new_database`, cutting off who is still connected to it."""

    def start(self) -> None:
        """Start the server if it is down and return when it answers queries."""
        self.launch()
        self.wait_ready()

    def restart(self, *, immediate: bool = False) -> None:
        """Stop (like a crash if `immediate`) and start again, on the same port with the same data."""
        self.stop("immediate" if immediate else "polite")
        self.start()
