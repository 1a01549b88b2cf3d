"""Ways to call `sqljobs`: in this process, as a program, on a terminal; and what it said."""

import fcntl
import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from typing import Any

import pytest

from sqljobs.schema.configure import configure
from sqljobs.supervisor.__main__ import main

PROGRAM = [sys.executable, "-m", "sqljobs.supervisor"]


@dataclass(frozen=True)
class Said:
    """What one call ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, which must be one JSON document."""
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """The one line on stderr, without the program's name."""
        assert self.err.startswith("sqljobs: "), self.err
        assert self.err.endswith("\n"), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.removeprefix("sqljobs: ").rstrip("\n")


class Cli:
    """Calls `sqljobs` in this process, with stdin, stdout and stderr that are no terminals."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, *args: object, stdin: str | bytes = "", encoding: str = "utf-8") -> Said:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        out, err = io.BytesIO(), io.BytesIO()
        with self._patch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding, write_through=True))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding, write_through=True))
            code = main([str(arg) for arg in args])
            configure(schema=None)
            return Said(code, out.getvalue().decode(encoding), err.getvalue().decode(encoding))

    def refused(self, code: int, *args: object, stdin: str = "") -> str:
        """Call, also with --json; returns the one line of the error after checking code and JSON."""
        said = self(*args, stdin=stdin)
        assert said.code == code, said
        assert said.out == ""
        also = self("--json", *args, stdin=stdin)
        assert also.code == code, also
        assert also.json == {"error": also.line, "code": code}
        assert also.line == said.line
        return said.line


def program(*args: object, stdin: str = "", **environment: str) -> Said:
    """Run `sqljobs` as a program in the current folder."""
    ended = subprocess.run(
        [*PROGRAM, *map(str, args)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )
    return Said(ended.returncode, ended.stdout, ended.stderr)


def on_terminal(*args: object, columns: int = 80, typed: str = "", wait_for: str = "") -> Said:
    """Run `sqljobs` on a terminal of its own; `typed` is sent once it has shown `wait_for`. stderr is in `out`, too."""
    process, terminal = pty.fork()
    if process == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
        os.execve(sys.executable, [*PROGRAM, *map(str, args)], environment | {"TERM": "xterm-256color"})
    shown = b""
    with open(terminal, "r+b", buffering=0) as file:
        while True:
            if not select.select([file], [], [], 10)[0]:
                # Ctrl-C in the instant before Python begins to read a line is seen only with the next one.
                file.write(b"\x03" if typed == "\x03" and wait_for.encode() in shown else b"")
                continue
            piece = _read(file.fileno())
            if not piece:
                break
            if typed and wait_for.encode() in shown + piece and wait_for.encode() not in shown:
                file.write(typed.encode())
            shown += piece
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return Said(code, shown.decode().replace("\r\n", "\n"), "")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
