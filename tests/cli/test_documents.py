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
NEXT = "\x1e\n"
FOLDER = "/srv/etl"  # where the documents are


class Shown(NamedTuple):
    """One command of a document, and what it prints there."""

    command: str
    output: str


def shown_in(document: str) -> list[Shown]:
    parts = [part for block in CONSOLE.findall(document) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [Shown(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@pytest.mark.parametrize("name", ["workflows.md"])
def test_a_document(tmp_path: Path, name: str) -> None:
    document = (ROOT / "docs" / name).read_text()
    for file, content in FILE.findall(document):
        (tmp_path / file).write_text(content)
    script = ['sqljobs() { "$PYTHON" -m sqljobs.supervisor "$@" 2>>log; }']
    script += [f"{one.command}\nprintf '\\036\\n'" for one in shown_in(document)]
    environment = {**os.environ, "PYTHON": sys.executable, "COLUMNS": "120"}
    done = subprocess.run(
        ["sh", "-c", "\n".join(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    printed = done.stdout.replace(str(tmp_path), FOLDER).split(NEXT)
    happened = [Shown(one.command, output) for one, output in zip(shown_in(document), printed, strict=False)]
    assert done.stderr == ""
    assert happened == shown_in(document)
