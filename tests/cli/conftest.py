"""A queue in a folder of the test's own, and the command line in it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqljobs
from sqljobs.schema.configure import configure
from sqljobs.schema.migrate import initialise
from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli


@pytest.fixture(scope="session")
def empty_queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with our tables and nothing in them, to be copied."""
    file = tmp_path_factory.mktemp("template") / "sqljobs.db"
    engine = sqljobs.create_engine(f"sqlite:///{file}")
    initialise(Database.of(engine))
    engine.dispose()
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, and no SQLJOBS_ variables."""
    for name in [name for name in os.environ if name.startswith("SQLJOBS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(Path(sqljobs.__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    configure(schema=None)


@pytest.fixture
def cli(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line in an empty folder."""
    del folder
    return Cli(monkeypatch)


@pytest.fixture
def queue(folder: Path, empty_queue: Path) -> Iterator[Database]:
    """`sqljobs.db` in the current folder, with our tables."""
    shutil.copy(empty_queue, folder / "sqljobs.db")
    engine = sqljobs.create_engine("sqlite:///sqljobs.db")
    yield Database.of(engine)
    engine.dispose()
