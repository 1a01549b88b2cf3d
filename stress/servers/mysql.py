"""MySQL for tests: Debian's unstable mysql-server-core, unpacked by scripts/install-test-servers.

It runs from its folder with the libraries beside it, started through the dynamic loader unpacked with
it, so it needs neither root nor chroot, and sees no library of this system.
"""

import os

from stress.servers.mysql_family import MysqlFamily
from stress.servers.process import run_to_end
from stress.servers.server import ServerUnavailable
from stress.servers.templates import cache_folder, fill_from_template


class Mysql(MysqlFamily):
    """MySQL as it comes: with a binary log."""

    kind = "mysql"

    def prepare(self) -> None:
        version = run_to_end(*self.program(), "--version", cwd=self.folder)
        options = ["--initialize-insecure", "--mysqlx=OFF", "--secure-file-priv=NULL"]

        def initialise() -> None:
            run_to_end(*self.program(), *options, f"--datadir={self.data}", cwd=self.folder)

        fill_from_template(self.kind, f"{version} {options}", self.data, initialise)

    def program(self) -> list[str]:
        root = cache_folder() / "mysql"
        server = root / "usr/sbin/mysqld"
        loaders = sorted(root.glob("usr/lib*/ld-linux*.so.*"))
        if not server.exists() or not loaders:
            raise ServerUnavailable(f"no MySQL unpacked in {root}")
        libraries = ":".join(str(path) for path in root.glob("usr/lib/*-linux-gnu*"))
        return [
            str(loaders[0]),
            "--inhibit-cache",
            "--library-path",
            libraries,
            "--argv0",
            str(server),
            str(server),
            "--no-defaults",
            f"--basedir={root / 'usr'}",
            f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
            f"--lc-messages-dir={root / 'usr/share/mysql'}",
            # It refuses to run as root unless told so by name.
            *(["--user=root"] if os.getuid() == 0 else []),
        ]

    def settings(self) -> dict[str, object]:
        return {"mysqlx": "OFF", "secure-file-priv": "NULL"}
