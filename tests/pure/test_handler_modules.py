"""Importing handlers: by name, file and object; every way in which an import fails gives one line with its place."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sqljobs.schema.errors import BadHandlers
from sqljobs.supervisor.handler_modules import load_handlers
from sqljobs.supervisor.liveness import other_threads
from tests.pure.conftest import WriteModule
from tests.waiting import wait_until

GOOD = "import sqljobs\n\n@sqljobs.handler\ndef {}(): ...\n"
THREAD = """
    import threading
    over = threading.Event()
    threading.Thread(target=over.wait, name="poller", daemon=True).start()
"""


def refused(handlers: Any, **options: Any) -> str:
    with pytest.raises(BadHandlers) as caught:
        load_handlers(handlers, **options)
    told = str(caught.value)
    assert told.isprintable()
    return told


def test_by_name_file_object_and_list(write_module: WriteModule, tmp_path: Path) -> None:
    first, second = write_module("one.py", GOOD.format("a")), write_module("app/two.py", GOOD.format("b"))
    assert load_handlers("one", app_dir=tmp_path).keys() == {"a"}
    assert load_handlers("app.two", app_dir=str(tmp_path)).keys() == {"b"}
    assert load_handlers(first).keys() == load_handlers(str(first)).keys() == {"a"}
    assert load_handlers(sys.modules["one"]).keys() == {"a"}
    assert load_handlers([sys.modules["one"], str(second)]).keys() == {"a", "b"}
    assert load_handlers(iter(["one", "app.two"]), app_dir=tmp_path).keys() == {"a", "b"}


def test_a_relative_file_and_the_default_folder(
    write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module("here.py", GOOD.format("a"))
    monkeypatch.chdir(tmp_path)
    assert load_handlers("./here.py").keys() == load_handlers("here.py").keys() == load_handlers("here").keys() == {"a"}


def test_a_file_finds_its_neighbours(write_module: WriteModule) -> None:
    write_module("deep/beside.py", "LIMIT = 3\n")
    path = write_module("deep/jobs.py", "from beside import LIMIT\n" + GOOD.format("a"))
    assert load_handlers(path).keys() == {"a"}


NULL_BYTES = "SyntaxError" if sys.version_info >= (3, 11, 4) else "ValueError"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("x = 1\ny = z\n", 2, "NameError: name 'z' is not defined"),
        ("import nowhere_to_be_found\n", 1, "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("\nfrom json import nothing_of_it\n", 2, "ImportError: cannot import name 'nothing_of_it'"),
        ("x = (\n", 1, "SyntaxError: '(' was never closed"),
        ("x = 1\n  y = 2\n", 2, "IndentationError: unexpected indent"),
        ("x = 1\n\0\n", None, f"{NULL_BYTES}: source code string cannot contain null bytes"),
        ("import json\nx = json.loads('{')\n", 2, "JSONDecodeError: Expecting property name"),
        ("raise SystemExit(3)\n", 1, "SystemExit: 3"),
        ("import sys\nsys.exit('no licence')\n", 2, "SystemExit: no licence"),
        ("raise GeneratorExit\n", 1, "GeneratorExit: "),
        ("raise ValueError('two\\nlines \\x00')\n", 1, r"ValueError: two lines \x00"),
        (
            "class Mute(Exception):\n    def __str__(self): 1 / 0\nraise Mute\n",
            3,
            "Mute: <Mute: its text cannot be had",
        ),
        ("raise ValueError('x' * 100_000)\n", 1, "ValueError: xxx"),
        ("def f(): f()\nf()\n", 1, "RecursionError: maximum recursion depth exceeded"),
        ("import sqljobs\n@sqljobs.handler(wieght=1)\ndef f(): ...\n", 2, "TypeError: unknown option 'wieght'"),
        ("import sqljobs\n\n\n@sqljobs.handler\ndef f(*a): ...\n", 4, "InvalidJob: f: *a has no names"),
    ],
)
@pytest.mark.parametrize("folder", ["app", "sqljobs"])
def test_an_import_that_fails_names_file_and_line(
    text: str, line: int | None, says: str, folder: str, write_module: WriteModule
) -> None:
    path = write_module(f"{folder}/broken.py", text)
    told = refused(path)
    assert told.startswith(f"handlers {str(path)!r} cannot be imported: {says}")
    assert told.endswith(f" ({path}, line {line})") or line is None
    assert len(told) < 1000
    assert "broken" not in sys.modules


def test_the_module_that_is_at_fault_is_named_not_the_one_that_imports_it(write_module: WriteModule) -> None:
    at_fault = write_module("settings_of_app.py", "\n\nx = 1 / 0\n")
    path = write_module("jobs.py", "import settings_of_app\n" + GOOD.format("a"))
    assert refused(path).endswith(f"ZeroDivisionError: division by zero ({at_fault}, line 3)")


def test_handlers_that_are_installed_as_a_package_are_named_too(write_module: WriteModule) -> None:
    path = write_module("site-packages/shop_jobs.py", "x = 1 / 0\n")
    assert refused("shop_jobs", app_dir=path.parent).endswith(f"({path}, line 1)")


def test_ctrl_c_during_an_import_is_no_fault_of_the_module(write_module: WriteModule) -> None:
    path = write_module("slow.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_handlers(path)


def test_a_failed_import_leaves_the_former_module(write_module: WriteModule) -> None:
    path = write_module("kept.py", GOOD.format("a"))
    load_handlers(path)
    former = sys.modules["kept"]
    write_module("kept.py", "x = (\n")
    refused(path)
    assert sys.modules["kept"] is former


def test_what_is_not_there(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("pack/__init__.py", "")
    assert refused(tmp_path / "no.py") == f"there is no handlers file {str(tmp_path / 'no.py')!r}"
    assert "there is no module 'jbos' (a file needs its path, such as ./jbos.py" in refused("jbos", app_dir=tmp_path)
    assert "No module named 'pack.no'" in refused("pack.no", app_dir=tmp_path)
    assert "is not a Python file" in refused(write_module("jobs.txt", ""))
    assert refused([]) == "no handlers: name a module or a file that declares job types"
    for nonsense in ("", ".", ".jobs"):
        assert refused(nonsense, app_dir=tmp_path) == f"handlers {nonsense!r} is neither a module's name nor a .py file"


def test_modules_without_a_job_type_are_named(write_module: WriteModule) -> None:
    empty = write_module("empty.py", "def f(): ...\n")
    told = refused([json, empty])
    assert told == "json, empty registers no job type: put @sqljobs.handler on a function"


@pytest.mark.parametrize("name", ["json", "sqljobs", "pytest"])
def test_a_file_named_like_a_loaded_module_does_not_replace_it(name: str, write_module: WriteModule) -> None:
    former = sys.modules[name]
    path = write_module(f"{name}.py", "x = 1\n" + GOOD.format("a"))
    found = load_handlers(path)["a"]
    assert sys.modules[name] is former
    assert found.module.startswith(f"{name}_")
    assert sys.modules[found.module].__file__ == str(path)
    assert load_handlers(path).keys() == {"a"}


def test_a_thread_that_an_import_leaves_is_seen_by_name(write_module: WriteModule) -> None:
    path = write_module("threaded.py", THREAD)
    path.write_text(path.read_text() + GOOD.format("a"))
    found = load_handlers(path)["a"]
    try:
        assert "poller" in other_threads()
    finally:
        sys.modules[found.module].over.set()
    wait_until(lambda: "poller" not in other_threads(), what="the thread's end")
