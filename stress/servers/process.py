"""A server that is a process with a TCP port: launching, waiting, stopping. Must not know any one database."""

import random
import signal
import socket
import subprocess
import time
from abc import abstractmethod
from collections import deque
from pathlib import Path
from typing import ClassVar

from stress.servers.server import Server, ServerFailed, StopMode

_PATIENCE = 60.0


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on.

    Below the range that the kernel gives to outgoing connections: a client that tries again and again
    while the server is down could otherwise be given that very port and connect to itself.
    """
    while True:
        port = random.SystemRandom().randrange(15000, 30000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class ServerProcess(Server):
    """Base of the servers that run as a process of their own."""

    # Signal that ends the server as a crash would, and one that lets it end its clients and checkpoint.
    immediate_signal: ClassVar[signal.Signals] = signal.SIGKILL
    polite_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = folder / "data"
        self.log = folder / "log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Make `self.data` (its parent is there), once. ServerUnavailable."""

    @abstractmethod
    def command(self) -> list[str]:
        """The server's command line, in the foreground; it names `self.folder` (the watchdog looks for it)."""

    @abstractmethod
    def owns_port(self) -> bool:
        """Log in and see that it is this server that answers. An Exception of any kind means not yet."""

    @property
    def run_as(self) -> str | None:
        """Name of the user to run as, None for the user of this process."""
        return None

    @property
    def pid(self) -> int | None:
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def launch(self) -> None:
        if self.pid is not None:
            return
        if not self.port:
            self.folder.mkdir()
            self.prepare()
            self.port = free_port()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=self.run_as,
                group=self.run_as,
                extra_groups=[] if self.run_as else None,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        process = self._process
        if process is None:
            raise ServerFailed(f"{self.kind} was never launched")
        deadline = time.monotonic() + _PATIENCE
        reason = "no answer"
        while time.monotonic() < deadline:
            if process.poll() is not None:
                reason = f"it ended with {process.returncode}"
                break
            try:
                if self.owns_port():
                    return
                reason = f"another server answers on port {self.port}"
            except Exception as error:  # noqa: BLE001 - drivers raise what they like until the server is up
                reason = str(error)
            time.sleep(0.02)
        self.stop("immediate")
        raise ServerFailed(f"{self.kind} did not start: {reason}\n{self.log_tail()}")

    def stop(self, mode: StopMode = "polite") -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(self.polite_signal if mode == "polite" else self.immediate_signal)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerFailed(f"{self.kind} did not stop ({mode})\n{self.log_tail()}") from None

    def log_tail(self, lines: int = 40) -> str:
        if not self.log.exists():
            return f"{self.kind} has no log"
        with self.log.open(errors="replace") as log:
            return "".join(deque(log, maxlen=lines))


def run_to_end(*command: str | Path, cwd: Path, run_as: str | None = None) -> str:
    """Run a program that prepares a server; return what it printed. ServerFailed with that when it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        user=run_as,
        group=run_as,
        extra_groups=[] if run_as else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ServerFailed(f"{command[0]} ended with {done.returncode}\n{done.stdout}")
    return done.stdout
