"""All servers of one test session: started at first use, stopped together."""

from stress.servers.mariadb import Mariadb
from stress.servers.mysql import Mysql
from stress.servers.postgresql import Postgresql
from stress.servers.private_folder import PrivateFolder
from stress.servers.server import Kind, Server, ServerFailed, ServerUnavailable
from stress.servers.sqlite import Sqlite

_CLASSES: dict[Kind, type[Server]] = {
    "sqlite": Sqlite,
    "postgresql": Postgresql,
    "mariadb": Mariadb,
    "mysql": Mysql,
}


class Servers:
    """The session's servers by kind. `close()` stops them and removes their folder."""

    def __init__(self) -> None:
        self._folder: PrivateFolder | None = None
        self._servers: dict[Kind, Server] = {}
        self._refusals: dict[Kind, ServerUnavailable | ServerFailed] = {}

    def get(self, kind: Kind) -> Server:
        """The server of this kind, started if it is down. ServerUnavailable, ServerFailed."""
        return self.get_all(kind)[0]

    def get_all(self, *kinds: Kind) -> list[Server]:
        """The servers of these kinds, started side by side. ServerUnavailable, ServerFailed.

        A kind that could not be had once is not tried again.
        """
        if self._folder is None:
            self._folder = PrivateFolder()
        for kind in kinds:
            if kind not in self._servers:
                self._servers[kind] = _CLASSES[kind](self._folder.path / kind)
        servers = [self._servers[kind] for kind in kinds]
        for step in ("launch", "wait_ready"):
            for server in servers:
                if server.kind in self._refusals:
                    raise self._refusals[server.kind]
                try:
                    getattr(server, step)()
                except (ServerUnavailable, ServerFailed) as refusal:
                    self._refusals[server.kind] = refusal
                    raise
        return servers

    def close(self) -> None:
        """Stop all and remove what they left; in a forked child of the session, do nothing."""
        if self._folder is None or not self._folder.is_ours:
            return
        try:
            for server in self._servers.values():
                server.stop("immediate")
        finally:
            self._folder.remove()
            self._folder = None
            self._servers.clear()
