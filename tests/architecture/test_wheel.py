"""What is installed: one import name, beside packages that own the names of our folders."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOREIGN = {"schema": "VALUE = 'theirs'\n", "supervisor": "VALUE = 'theirs'\n"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # A copy: setuptools keeps what it once built beside the sources, and would ship files that are gone by now.
    unwanted = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "copy", symlinks=True, ignore=unwanted)
    options = ["--wheel", "--no-isolation", "--outdir", str(folder)]
    command = [sys.executable, "-m", "build", *options, str(folder / "copy")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_only_sqljobs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"sqljobs"}
    for needed in ("py.typed", "schema/migrations/env.py", "schema/migrations/versions/0001_first_tables.py"):
        assert f"sqljobs/{needed}" in names
    sources = {
        path.relative_to(ROOT)
        for folder in ("schema", "worker_runtime", "supervisor")
        for path in (ROOT / folder).rglob("*.py")
    }
    missing = [str(path) for path in sources if f"sqljobs/{path}" not in names]
    assert missing == []


def test_it_works_beside_packages_with_the_names_of_our_folders(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    for name, text in FOREIGN.items():
        (target / name).mkdir(parents=True)
        (target / name / "__init__.py").write_text(text)
    zipfile.ZipFile(wheel).extractall(target)
    program = """
import sys, sqljobs, sqljobs.supervisor.supervise, schema, supervisor
assert schema.VALUE == supervisor.VALUE == "theirs"
assert "worker_runtime" not in sys.modules
assert sqljobs.__file__.startswith(sys.path[1]), sqljobs.__file__
"""
    environment = {"PYTHONPATH": str(target), "PATH": ""}
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=tmp_path, check=True)


def test_no_bare_folder_name_is_imported_here() -> None:
    assert not {"schema", "supervisor", "worker_runtime"} & set(sys.modules)


def test_enqueueing_loads_no_more_than_it_needs() -> None:
    program = """
import sys, sqljobs
heavy = {"psutil", "structlog", "click", "rich", "alembic", "pydantic"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
