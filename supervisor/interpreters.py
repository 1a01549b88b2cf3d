"""Fresh interpreters that do one thing for this process: what each is told, and how it is told so. Starts none.

What it is told may hold the database's password: it goes through a file without a name, never by argument or
environment, which all users can read, or all programs that a job starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from signal import valid_signals
from typing import Any

from sqljobs.schema.configure import configured_schema
from sqljobs.schema.errors import Error
from sqljobs.supervisor.child_process import Program
from sqljobs.worker_runtime.stack_dump import nameless_file

ORDER_FD = 4
STOP_FD, DUMP_FD, OUTPUT_FD = 5, 6, 7

# Nothing is looked up in the current folder: what is found there is found by the parent's path, or not at all.
_BEGIN = f"""
import sys
if not sys.flags.safe_path: del sys.path[0]
import json
with open({ORDER_FD}, encoding="ascii") as file: order = json.load(file)
sys.path[:], sys.argv[:] = order["path"], order["argv"]
from sqljobs.supervisor.fresh import obey
obey(order)
"""


@contextmanager
def interpreter(
    task: str,
    told: Mapping[str, Any],
    *,
    variables: Mapping[str, str] | None = None,
    descriptors: Mapping[int, int] | None = None,
    blocked: Collection[int] | None = None,
    leads_session: bool = True,
) -> Iterator[Program]:
    """A program to be started within the block: a Python like this one that does `task` (see fresh.py) with what it is
    `told` (JSON). `variables`: in its environment, besides ours; the others as in `Program`.

    Raises `Error` in a process that does not know its Python, OSError without a descriptor."""
    if not sys.executable:
        raise Error("this program does not know its Python (sys.executable is empty), of which it needs a fresh one")
    order = nameless_file("order")
    try:
        context = {"task": task, "parent_pid": os.getpid(), "schema": configured_schema(), "told": told}
        with open(order, "w", encoding="ascii", closefd=False) as file:
            json.dump({**context, "path": sys.path, "argv": sys.argv}, file)
        os.lseek(order, 0, os.SEEK_SET)
        yield Program(
            [sys.executable, *_flags(), "-c", _BEGIN],
            {**os.environ, **(variables or {})},
            {**(descriptors or {}), ORDER_FD: order},
            valid_signals() if blocked is None else blocked,
            leads_session,
        )
    finally:
        os.close(order)


def _flags() -> list[str]:
    """What our own Python was started with: `-W error`, `-X dev` and the like. As `multiprocessing` does."""
    found: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    return found
