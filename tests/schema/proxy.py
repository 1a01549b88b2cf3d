"""A TCP proxy before a database server that loses what the test tells it to lose: a request, its answer, or time."""

import contextlib
import socket
import threading
from enum import Enum
from types import TracebackType

from sqlalchemy import URL

CHUNK = 1 << 16


class Loss(Enum):
    """What becomes of the next request of any client; its connection is cut in each case."""

    REQUEST = "the server never hears it"
    ANSWER = "the server carries it out, and the client never hears of it"
    TIME = "the server hears it when the test says so, long after the client has gone"


class Proxy:
    """Stands between one server and its clients. `refuse`: so many connections are cut at once. `silent`: while it is
    true, requests are taken and thrown away, and nothing is cut: as of a host that hangs. `muffled`:
    notifications of PostgreSQL do not arrive."""

    def __init__(self, server: URL) -> None:
        self._target = (server.host or "127.0.0.1", server.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = server.set(host="127.0.0.1", port=self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._loss: Loss | None = None
        self._late = threading.Event()
        self._answered = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.refuse = 0
        self.silent = False
        self.muffled = False

    def lose_next(self, loss: Loss) -> None:
        """Lose the next request, whoever sends it."""
        self._late.clear()
        self._answered.clear()
        self._loss = loss

    def deliver(self) -> None:
        """Let the late request arrive, and wait until the server has answered it."""
        self._late.set()
        assert self._answered.wait(30), "the late request was not answered"

    def __enter__(self) -> "Proxy":
        self._start(self._accept)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._late.set()
        # shutdown() wakes the thread that stands in accept(); close() alone does not.
        for one in (self._listener, *self._sockets):
            _cut(one)
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]  # our own methods
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse > 0:
                self.refuse -= 1
                _cut(client)
                continue
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            muted = threading.Event()
            self._start(self._requests, client, server, muted)
            self._start(self._answers, client, server, muted)

    def _requests(self, client: socket.socket, server: socket.socket, muted: threading.Event) -> None:
        while data := _receive(client):
            if self.silent:
                continue
            loss = self._take_loss()
            if loss is None:
                if not _send(server, data):
                    break
                continue
            if loss is not Loss.REQUEST:
                muted.set()
                if loss is Loss.TIME:
                    _cut(client)
                    self._late.wait()
                _send(server, data)
                self._answered.wait(30)
            break
        _cut(client)
        _cut(server)

    def _answers(self, client: socket.socket, server: socket.socket, muted: threading.Event) -> None:
        while data := _receive(server):
            if self.muffled and data[:1] == b"A":
                continue
            if muted.is_set():
                self._answered.set()
            elif not _send(client, data):
                break
        _cut(client)

    def _take_loss(self) -> Loss | None:
        with self._lock:
            loss, self._loss = self._loss, None
            return loss


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(CHUNK)
    except OSError:
        return b""


def _send(target: socket.socket, data: bytes) -> bool:
    try:
        target.sendall(data)
    except OSError:
        return False
    return True


def _cut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
