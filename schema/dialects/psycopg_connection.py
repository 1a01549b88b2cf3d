"""psycopg connections that do not wait for ever.

The kernel notices a host that has vanished; it cannot notice a server that takes everything and answers nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from psycopg import Connection, OperationalError

T = TypeVar("T")
# What psycopg sends into its generators when nothing has come for a while, so that they may do something else.
NOTHING_READY = 0


def limited(answer_seconds: float) -> Callable[..., Any]:
    """For SQLAlchemy's `do_connect` event: connections whose every answer must be complete in so many seconds.

    One that is late closes the connection and raises `OperationalError`; what the server made of it is unknown."""

    class LimitedConnection(Connection[Any]):
        def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
            return super().wait(_within(gen, answer_seconds, self), *args, **options)

    def connect(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
        return LimitedConnection.connect(*arguments, **parameters)

    return connect


def _within(gen: Generator[Any, Any, T], seconds: float, connection: Connection[Any]) -> Generator[Any, Any, T]:
    deadline = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready == NOTHING_READY and time.monotonic() >= deadline:
                connection.pgconn.finish()
                raise OperationalError(f"the server did not answer within {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
