"""What MariaDB and MySQL have in common as test servers."""

import itertools
from abc import abstractmethod
from functools import cached_property
from pathlib import Path

from sqlalchemy import Engine, NullPool, create_engine
from sqlalchemy.exc import OperationalError

from stress.servers.process import ServerProcess
from stress.servers.server import PASSWORD, USER, keeps_fsync

_numbers = itertools.count(1)
_NO_SUCH_THREAD = 1094


class MysqlFamily(ServerProcess):
    """One server with one account that may do all, in a time zone that isn't UTC."""

    @abstractmethod
    def program(self) -> list[str]:
        """First words of the server's command line: the program, and what it needs on this machine."""

    def settings(self) -> dict[str, object]:
        """Settings beyond the common ones."""
        return {}

    def command(self) -> list[str]:
        settings: dict[str, object] = {
            "datadir": self.data,
            "bind-address": "127.0.0.1",
            "port": self.port,
            "socket": self.folder / "socket",
            "pid-file": self.folder / "pid",
            "tmpdir": self.folder,
            "init-file": self._account_file(),
            "default-time-zone": "+05:45",
            "max-connections": 300,
            "innodb-buffer-pool-size": "64M",
        }
        if not keeps_fsync():
            # Each commit is still handed to the operating system, so it survives the server's death.
            settings |= {
                "innodb-flush-log-at-trx-commit": 2,
                "innodb-doublewrite": 0,
                "innodb-flush-method": "nosync",
                "sync-binlog": 0,
            }
        settings |= self.settings()
        given = [f"--{name}={value}" for name, value in settings.items()]
        return [*self.program(), *given, "--skip-name-resolve"]

    def owns_port(self) -> bool:
        return Path(self._scalar("SELECT @@datadir")) == self.data

    def version(self) -> tuple[int, ...]:
        number = self._scalar("SELECT VERSION()").partition("-")[0]
        return tuple(int(part) for part in number.split("."))

    def new_database(self) -> str:
        name = f"test{next(_numbers)}"
        with self._engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return self._url(name)

    def drop_database(self, url: str) -> None:
        name = url.rpartition("/")[2]
        with self._engine.connect() as connection:
            sessions = connection.exec_driver_sql(
                "SELECT id FROM information_schema.processlist WHERE db = %s", (name,)
            )
            for session in sessions.scalars().all():
                try:
                    connection.exec_driver_sql(f"KILL {session}")
                except OperationalError as error:
                    if error.orig is None or error.orig.args[0] != _NO_SUCH_THREAD:
                        raise
            # A killed session keeps its locks until it notices; waiting for them has an end.
            connection.exec_driver_sql("SET lock_wait_timeout = 30")
            connection.exec_driver_sql(f"DROP DATABASE {name}")

    def _account_file(self) -> Path:
        """A file of statements that the server runs at each start before it listens."""
        path = self.folder / "account.sql"
        path.write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        )
        return path

    @cached_property
    def _engine(self) -> Engine:
        """For statements of our own; each use opens a connection, in no database."""
        return create_engine(
            self._url(""),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": 10, "read_timeout": 60},
        )

    def _url(self, database: str) -> str:
        return f"{self.kind}+pymysql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def _scalar(self, query: str) -> str:
        with self._engine.connect() as connection:
            return str(connection.exec_driver_sql(query).scalar_one())
