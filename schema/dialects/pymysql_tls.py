"""PyMySQL connections that share one TLS context.

PyMySQL prefers TLS and, told nothing, reads all of the system's certificates for each connection without using them:
25 ms and more, twice in every child. A context is safe to share, also across a fork."""

from __future__ import annotations

import ssl
from typing import Any

from pymysql.connections import Connection

_shared: ssl.SSLContext | None = None


class SharingConnection(Connection):
    """`_create_ssl_ctx` is PyMySQL's own step; should it go by another name one day, only the saving is lost."""

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        global _shared
        if sslp:  # certificates or rules of the user's
            return super()._create_ssl_ctx(sslp)  # type: ignore[misc,no-any-return]
        if _shared is None:
            _shared = made = super()._create_ssl_ctx({})  # type: ignore[misc]
            return made  # type: ignore[no-any-return]
        return _shared


def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
    """For SQLAlchemy's `do_connect` event."""
    return SharingConnection(*arguments, **parameters)
