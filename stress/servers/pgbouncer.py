"""PgBouncer before a test server of PostgreSQL: a connection pooler in transaction mode. No server of its own."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

import psycopg
from sqlalchemy import make_url

from stress.servers.postgresql import Postgresql
from stress.servers.process import free_port
from stress.servers.server import PASSWORD, USER, ServerFailed, ServerUnavailable

PROGRAM = Path("/usr/sbin/pgbouncer")
PATIENCE = 30.0


class Pgbouncer:
    """Runs while its `with` block does; each transaction of a client may meet another session of the server."""

    def __init__(self, server: Postgresql) -> None:
        if not PROGRAM.exists():
            raise ServerUnavailable(f"no {PROGRAM}")
        self._server = server
        # Below the server's folder, which its user may read and the watchdog clears away.
        self._folder = server.folder / "pgbouncer"
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def through(self, url: str) -> str:
        """The URL of the same database through this pooler."""
        return make_url(url).set(port=self._port).render_as_string(hide_password=False)

    def __enter__(self) -> "Pgbouncer":
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        (self._folder / "users.txt").write_text(f'"{USER}" "{PASSWORD}"\n')
        (self._folder / "pgbouncer.ini").write_text(self._configuration())
        if self._server.run_as:
            for path in (self._folder, *self._folder.iterdir()):
                shutil.chown(path, self._server.run_as, self._server.run_as)
        self._process = subprocess.Popen(
            [PROGRAM, self._folder / "pgbouncer.ini"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            user=self._server.run_as,
            group=self._server.run_as,
            extra_groups=[] if self._server.run_as else None,
            start_new_session=True,
        )
        self._wait_ready(self._process)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()  # at once, whoever is connected
            self._process.wait(PATIENCE)

    def _configuration(self) -> str:
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self._port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": self._folder / "users.txt",
            "pool_mode": "transaction",
            "default_pool_size": 8,
            "logfile": self._folder / "log",
            "ignore_startup_parameters": "extra_float_digits",
        }
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        return f"[databases]\n* = host=127.0.0.1 port={self._server.port}\n[pgbouncer]\n{lines}"

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        reason = "no answer"
        while time.monotonic() < deadline and process.poll() is None:
            try:
                psycopg.connect(
                    host="127.0.0.1", port=self._port, user=USER, dbname="postgres", connect_timeout=5
                ).close()
                return
            except psycopg.OperationalError as error:
                reason = str(error)
            time.sleep(0.02)
        process.kill()
        process.wait()
        log = self._folder / "log"
        shown = log.read_text(errors="replace") if os.path.exists(log) else ""
        raise ServerFailed(f"pgbouncer did not start: {reason}\n{shown}")
