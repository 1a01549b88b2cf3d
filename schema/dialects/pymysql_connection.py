"""PyMySQL connections that share one TLS context, and that notice a host which has vanished.

PyMySQL prefers TLS and, told nothing, reads all of the system's certificates for each connection without using them:
25 ms and more, twice in every child. A context is safe to share, also across a fork."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from pymysql.connections import Connection

KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 10, 5, 3
UNANSWERED_MILLISECONDS = 15_000

_shared: ssl.SSLContext | None = None


class OurConnection(Connection):
    """`_create_ssl_ctx` and `_sock` are PyMySQL's own; should they go by other names one day, only comfort is lost."""

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        global _shared
        if sslp:  # certificates or rules of the user's
            return super()._create_ssl_ctx(sslp)  # type: ignore[misc,no-any-return]
        if _shared is None:
            _shared = made = super()._create_ssl_ctx({})  # type: ignore[misc]
            return made  # type: ignore[no-any-return]
        return _shared

    def connect(self, sock: Any = None) -> None:
        """As PyMySQL's, with a quicker keepalive than the two hours of the kernel."""
        super().connect(sock)
        made = getattr(self, "_sock", None)
        if made is not None and made.family in (socket.AF_INET, socket.AF_INET6):
            for option, value in (
                (socket.TCP_KEEPIDLE, KEEPALIVE_IDLE),
                (socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL),
                (socket.TCP_KEEPCNT, KEEPALIVE_COUNT),
                (socket.TCP_USER_TIMEOUT, UNANSWERED_MILLISECONDS),
            ):
                made.setsockopt(socket.IPPROTO_TCP, option, value)


def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
    """For SQLAlchemy's `do_connect` event."""
    return OurConnection(*arguments, **parameters)
