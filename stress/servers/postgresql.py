"""PostgreSQL for tests: the newest version that Debian's packages have installed."""

import itertools
import os
import shutil
import signal
from pathlib import Path

import psycopg
from psycopg import sql

from stress.servers.process import ServerProcess, run_to_end
from stress.servers.server import PASSWORD, USER, ServerUnavailable, keeps_fsync
from stress.servers.templates import fill_from_template

_numbers = itertools.count(1)


def newest_programs() -> Path:
    """Folder of the programs of the newest installed version. ServerUnavailable."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not found:
        raise ServerUnavailable("no /usr/lib/postgresql/*/bin/initdb")
    return max(found, key=lambda folder: float(folder.parent.name))


class Postgresql(ServerProcess):
    """One cluster, in the time zone and with the collation of somebody who isn't us."""

    kind = "postgresql"
    polite_signal = signal.SIGINT
    # SIGKILL would leave backends and shared memory behind; after SIGQUIT it recovers as after a crash.
    immediate_signal = signal.SIGQUIT

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._programs = Path()

    @property
    def run_as(self) -> str | None:
        return "postgres" if os.getuid() == 0 else None

    def prepare(self) -> None:
        self._programs = newest_programs()
        if self.run_as:
            shutil.chown(self.folder, self.run_as, self.run_as)
        version = run_to_end(self._programs / "postgres", "--version", cwd=self.folder)
        options = ["--no-sync", f"--username={USER}", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]
        if int(self._programs.parent.name) >= 15:
            # A collation that isn't by bytes, as most users have; the system's own need not be installed.
            options += ["--locale-provider=icu", "--icu-locale=en-US"]
        initdb = self._programs / "initdb"

        def initialise() -> None:
            run_to_end(initdb, *options, "-D", self.data, cwd=self.folder, run_as=self.run_as)

        fill_from_template(self.kind, f"{version} {options}", self.data, initialise)

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "max_connections": 300,
            "max_prepared_transactions": 10,
            "shared_buffers": "64MB",
            "max_wal_size": "256MB",
            "timezone": "Asia/Kathmandu",
            "fsync": "on" if keeps_fsync() else "off",
            "full_page_writes": "on" if keeps_fsync() else "off",
        }
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.data), *given]

    def owns_port(self) -> bool:
        with self._connect() as connection:
            row = connection.execute("SHOW data_directory").fetchone()
            return row == (str(self.data),)

    def version(self) -> tuple[int, ...]:
        with self._connect() as connection:
            return divmod(connection.info.server_version, 10000)

    def new_database(self) -> str:
        name = f"test{next(_numbers)}"
        # Measured: 23 ms to copy files, 53 ms to log each block. Before version 15 there is no choice.
        strategy = "STRATEGY file_copy" if int(self._programs.parent.name) >= 15 else ""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0 {}")
        with self._connect() as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.SQL(strategy)))
        return f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        name = sql.Identifier(url.rpartition("/")[2])
        with self._connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname="postgres", connect_timeout=10, autocommit=True
        )
