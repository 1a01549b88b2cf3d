"""The job type `shell`, which runs a command: `sqljobs run --handlers sqljobs.shell`.

Off unless it is asked for: who may insert jobs may then run commands, as the user that the supervisor runs as."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from typing import IO, TYPE_CHECKING

from sqljobs.schema.payloads import safe_text
from sqljobs.schema.renderings import shown
from sqljobs.worker_runtime.endings import Fail
from sqljobs.worker_runtime.registry import handler

STDERR = 2
TAIL_BYTES = 2000
TAIL_SECONDS = 2.0  # to read what the command wrote last, though a process that it left may keep the pipe open


if TYPE_CHECKING:
    Argv = list[str]
else:

    class Argv(list):
        """A command: its name and its arguments. Anything else is refused where a job is enqueued."""

        @classmethod
        def model_validate(cls, value: object) -> Argv:
            if isinstance(value, list) and value and value[0] and all(isinstance(item, str) for item in value):
                return cls(value)
            raise ValueError('must be a list of text that begins with the command, as in ["ls", "-l"]')

        def model_dump(self, **_: object) -> list[str]:
            return list(self)


class CommandFailed(Exception):
    """The command could not be started, was ended by a signal, or ended with a code that is not good."""


CommandFailed.__module__ = "sqljobs.shell"


@handler
def shell(
    argv: Argv,
    cwd: str | None = None,
    env: dict[str, str] = {},  # noqa: B006 - it is not changed
    ok: list[int] = [0],  # noqa: B006
) -> dict[str, int]:
    """Run the command `argv`, without a shell, and return `{"exit_code": ...}`.

    `cwd`: the folder to run it in. `env`: added to the environment. `ok`: exit codes that are good; any other, a
    signal, and a command that cannot be started end the attempt as `error`. What it prints goes where the job's output
    goes. It is of the job's process group, so that it is stopped and killed with the job."""
    process = _started(argv, cwd, env)
    assert process.stderr is not None
    tail = _Tail(process.stderr)
    try:
        code = process.wait()
    except BaseException:
        # What has stopped us was sent to our whole process group: it ends, too, or is killed with us.
        process.wait()
        raise
    words = tail.read()
    if code in ok:
        return {"exit_code": code}
    how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    told = f"{shown(argv[0])} {how}"
    raise CommandFailed(f"{told}; the end of its stderr:\n{words}\n{told}" if words else told)


def _started(argv: list[str], cwd: str | None, env: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv, cwd=cwd, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
    except OSError as error:
        if cwd is not None and not os.path.isdir(cwd):
            raise CommandFailed(f"there is no folder {shown(cwd)} to run {shown(argv[0])} in") from None
        raise CommandFailed(f"{shown(argv[0])} cannot be started: {error.strerror}") from None
    except ValueError as error:  # a name of a variable that holds `=`
        raise Fail(f"{shown(argv[0])} cannot be started: {error}") from None


class _Tail:
    """Passes on what the command writes to stderr as it comes, and keeps its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._kept = b""
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def read(self) -> str:
        """The end of it, once the command has ended."""
        self._thread.join(TAIL_SECONDS)
        return safe_text(self._kept.decode(errors="replace").strip(), limit_bytes=TAIL_BYTES)

    def _pass_on(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), 65536):
                self._kept = (self._kept + chunk)[-TAIL_BYTES:]
                _write(chunk)


def _write(chunk: bytes) -> None:
    try:
        while chunk:
            chunk = chunk[os.write(STDERR, chunk) :]
    except OSError:
        return  # nobody reads it: the command is not to be stopped by that


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
