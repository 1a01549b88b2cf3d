"""Handlers modules on disk, forgotten after the test: what an import leaves in the process is undone."""

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqljobs.worker_runtime import registry

WriteModule = Callable[[str, str], Path]


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteModule]:
    """Writes a file of this name below `tmp_path`; what the test registers and imports is forgotten at its end."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions of a file within a second
    monkeypatch.setattr(registry, "_by_module", {name: dict(types) for name, types in registry._by_module.items()})
    before = dict(sys.modules)

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        return path

    yield write
    for name in sys.modules.keys() - before.keys():
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
