"""SQLite as a test server: a folder of files, no process."""

import itertools
import sqlite3

from stress.servers.server import Server, StopMode

_numbers = itertools.count(1)


class Sqlite(Server):
    """Databases are files in the session's private folder; starting and stopping have nothing to do."""

    kind = "sqlite"

    @property
    def pid(self) -> int | None:
        return None

    def version(self) -> tuple[int, ...]:
        return sqlite3.sqlite_version_info

    def launch(self) -> None:
        self.folder.mkdir(exist_ok=True)

    def wait_ready(self) -> None:
        """A folder is ready when it is there."""

    def stop(self, mode: StopMode = "polite") -> None:
        """No process, nothing to stop."""

    def log_tail(self, lines: int = 40) -> str:
        return "SQLite keeps no log"

    def new_database(self) -> str:
        path = self.folder / f"test{next(_numbers)}.db"
        # The file has to exist: the product itself makes a SQLite file on request only.
        path.touch()
        return f"sqlite:///{path}"

    def drop_database(self, url: str) -> None:
        path = url.removeprefix("sqlite:///")
        for suffix in ("", "-wal", "-shm", "-journal"):
            (self.folder / f"{path}{suffix}").unlink(missing_ok=True)
