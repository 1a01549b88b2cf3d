"""What the documents show is what happens: their files are written, their commands run, their output compared."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python$", re.MULTILINE)
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")
NEXT = "\x1e\n"
FOLDER = "/srv/etl"  # where the documents are


class Shown(NamedTuple):
    """One command of a document, and what it prints there."""

    command: str
    output: str


def write_program(folder: Path, name: str, command: str) -> None:
    """What a shell finds under that name. Not a function of the shell: `$!` shall be the program's own process."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {command} "$@" 2>>"{folder}/log"\n')
    path.chmod(0o755)


def timeless(shown: str) -> str:
    return TIME.sub("2026-11-30 09:00:00Z", shown)


def shown_in(document: str) -> list[Shown]:
    parts = [part for block in CONSOLE.findall(document) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [Shown(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@pytest.mark.parametrize("name", ["workflows.md", "scheduling.md", "testing.md", "shell.md", "state.md"])
def test_a_document(tmp_path: Path, name: str) -> None:
    document = (ROOT / "docs" / name).read_text()
    files = FILE.findall(document)
    assert len(PYTHON.findall(document)) == sum(file.endswith(".py") for file, _ in files), "code that nothing runs"
    here, programs = tmp_path / "here", tmp_path / "programs"
    here.mkdir()
    programs.mkdir()
    for file, content in files:
        (here / file).write_text(content)
    write_program(programs, "python", sys.executable)
    write_program(programs, "sqljobs", f"{sys.executable} -m sqljobs.supervisor")
    script = ["trap '[ -z \"$!\" ] || kill -KILL $! 2>/dev/null' EXIT"]
    script += [f"{one.command}\nprintf '\\036\\n'" for one in shown_in(document)]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "120"}
    done = subprocess.run(
        ["sh", "-c", "\n".join(script)], cwd=here, env=environment, capture_output=True, text=True, timeout=280
    )
    printed = done.stdout.replace(str(here), FOLDER).split(NEXT)
    happened = [Shown(one.command, output) for one, output in zip(shown_in(document), printed, strict=False)]
    log = programs / "log"
    assert done.stderr == "", log.read_text() if log.exists() else ""
    assert [one._replace(output=timeless(one.output)) for one in happened] == [
        one._replace(output=timeless(one.output)) for one in shown_in(document)
    ]
