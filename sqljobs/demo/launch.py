"""The supervisor of the demo, in a process of its own, and how a user would call the same program."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url

from sqljobs.schema.configure import configured_schema

STOP_SECONDS = (5, 5, 5)
"""How long to wait after each of: asking the supervisor to stop, hurrying it, killing it."""

LOG_LINES = 15
DEFAULT_URL = "sqlite:///sqljobs.db"


@contextmanager
def supervisor(url: str, slots: int) -> Iterator[subprocess.Popen[bytes]]:
    """`sqljobs run --until-idle`; when it did not end well, the end of its log goes to stderr."""
    command = [sys.executable, "-m", "sqljobs.supervisor", "run", "--handlers", "sqljobs.demo.handlers"]
    # The URL may hold a password, which must not show in the list of processes.
    environment = {**os.environ, "SQLJOBS_URL": url}
    schema = configured_schema()
    if schema:
        environment["SQLJOBS_SCHEMA"] = schema
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--slots", str(slots), "--until-idle"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C reaches the demo alone, which then stops the supervisor in order
        )
        try:
            yield process
        finally:
            stop(process)
        if process.returncode != 0:
            log.seek(0)
            tail = log.read().decode(errors="replace").splitlines()[-LOG_LINES:]
            print("The supervisor did not end well. Its last lines:", *tail, sep="\n  ", file=sys.stderr)
            again = f"{command_line(url)} run --handlers sqljobs.demo.handlers --until-idle"
            print(f"To let the jobs that are left end: {again}", file=sys.stderr)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the supervisor to stop, hurry it, then kill it; nothing if it has ended."""
    for act, seconds in zip((process.terminate, process.terminate, process.kill), STOP_SECONDS, strict=True):
        if process.poll() is not None:
            return
        act()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


def command_line(url: str) -> str:
    """How to call this installation with this database, to be followed by a command. Never shows a password."""
    called, found = Path(sys.argv[0]), shutil.which("sqljobs")
    if found and called.name == "sqljobs" and Path(found).resolve() == called.resolve():
        program = "sqljobs"
    elif called.name == "sqljobs":
        program = shlex.quote(min(os.path.relpath(called), str(called.resolve()), key=len))
    else:
        program = f"{shlex.quote(sys.executable)} -m sqljobs.supervisor"
    says_otherwise = "SQLJOBS_URL" in os.environ or "SQLJOBS_URL_FILE" in os.environ or Path("sqljobs.toml").exists()
    if url == DEFAULT_URL and not says_otherwise:
        return program
    return f"{program} --url {shlex.quote(shown(url))}"


def shown(url: str) -> str:
    """The URL with `***` for the password."""
    return make_url(url).render_as_string(hide_password=True)
