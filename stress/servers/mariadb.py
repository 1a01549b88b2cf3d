"""MariaDB for tests: the one that the system's package has installed."""

import os
import shutil

from stress.servers.mysql_family import MysqlFamily
from stress.servers.process import run_to_end
from stress.servers.server import ServerUnavailable
from stress.servers.templates import fill_from_template

_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))


class Mariadb(MysqlFamily):
    """MariaDB as it comes: no binary log."""

    kind = "mariadb"

    def prepare(self) -> None:
        installer = shutil.which("mariadb-install-db")
        if installer is None:
            raise ServerUnavailable("no mariadb-install-db on the PATH")
        version = run_to_end(*self.program(), "--version", cwd=self.folder)
        options = ["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]
        if os.getuid() == 0:
            options.append("--user=root")

        def initialise() -> None:
            run_to_end(str(installer), *options, f"--datadir={self.data}", cwd=self.folder)

        fill_from_template(self.kind, f"{version} {options}", self.data, initialise)

    def program(self) -> list[str]:
        server = shutil.which("mariadbd", path=_SBIN)
        if server is None:
            raise ServerUnavailable("no mariadbd on the PATH")
        # It refuses to run as root unless told so by name.
        return [server, "--no-defaults", *(["--user=root"] if os.getuid() == 0 else [])]
