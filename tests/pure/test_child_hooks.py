"""Hooks as authors register them: their order, what is refused, and modules that are imported again."""

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

import sqljobs
from sqljobs.schema.errors import BadHandlers
from sqljobs.supervisor.handler_modules import load_handlers
from sqljobs.worker_runtime import child_hooks
from sqljobs.worker_runtime.child_hooks import hooks, on_child_end, on_child_start
from tests.pure.conftest import WriteModule

HOOKED = """
import sqljobs

@sqljobs.handler
def work(): ...

@sqljobs.on_child_start
def a(): return "a{version}"

@sqljobs.on_child_end
def b(): return "b{version}"
"""
SECOND = """
@sqljobs.on_child_start
def c(): return "c"
"""


@pytest.fixture(autouse=True)
def nothing_registered(write_module: WriteModule, monkeypatch: pytest.MonkeyPatch) -> WriteModule:
    monkeypatch.setattr(child_hooks, "_registered", [])
    return write_module


def answers(decorator: str = "on_child_start") -> list[object]:
    return [hook() for hook in hooks(decorator)]


def test_hooks_stay_plain_functions_and_keep_their_order() -> None:
    @sqljobs.on_child_start
    def first() -> str:
        return "first"

    @sqljobs.on_child_end
    @sqljobs.on_child_start
    def both() -> str:
        return "both"

    assert first() == "first"
    assert answers() == ["first", "both"]
    assert answers("on_child_end") == ["both"]


def test_each_function_of_a_loop_counts_and_one_function_counts_once() -> None:
    def hook_that_says(word: str) -> Callable[[], str]:
        @on_child_start
        def hook() -> str:
            return word

        return hook

    made = [hook_that_says(word) for word in "ab"]
    on_child_start(made[0])
    assert answers() == ["b", "a"]


async def asynchronous() -> None: ...


def generator() -> Any:
    yield


@functools.wraps(asynchronous)
def wrapped() -> object:
    return asynchronous()


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (None, "a function, not on a NoneType"),
        (print, "not on a builtin"),
        (functools.partial(generator), "not on a partial"),
        (lambda: None, None),
        (lambda dsn: dsn, r"without parameters, but '<lambda>' takes \(dsn\)"),
        (lambda dsn=1, *rest: dsn, r"takes \(dsn, rest\): it can ask sqljobs.current_job"),
        (asynchronous, "a call of 'asynchronous' would not run it"),
        (wrapped, "a call of 'asynchronous' would not run it"),
        (generator, "a call of 'generator' would not run it"),
    ],
)
def test_what_is_no_plain_function_without_parameters_is_refused(function: Any, says: str | None) -> None:
    if says is None:
        assert on_child_end(function) is function
        return
    with pytest.raises(TypeError, match=rf"^@sqljobs.on_child_end goes on .*{says}[^\n]*$"):
        on_child_end(function)
    assert hooks("on_child_end") == []


def test_a_refusal_is_one_line_that_names_the_place(write_module: WriteModule) -> None:
    path = write_module("bad.py", "import sqljobs\n\n@sqljobs.on_child_start\ndef setup(dsn): ...\n")
    with pytest.raises(BadHandlers, match=r"bad.py' cannot be imported: TypeError: .*\(dsn\).*bad.py, line 3\)$"):
        load_handlers(str(path))


def test_a_file_that_is_loaded_again_replaces_its_own(write_module: WriteModule) -> None:
    @on_child_start
    def of_another_module() -> str:
        return "other"

    load_handlers(str(write_module("hooked.py", HOOKED.format(version=1) + SECOND)))
    assert answers() == ["other", "a1", "c"]
    load_handlers(str(write_module("hooked.py", "\n\n" + HOOKED.format(version=2))))
    assert answers() == ["other", "a2"]
    assert answers("on_child_end") == ["b2"]


@pytest.mark.parametrize("again", ["import", "reload"])
def test_so_does_a_module(write_module: WriteModule, again: str) -> None:
    write_module("hooked_module.py", HOOKED.format(version=1) + SECOND)
    sys.path.insert(0, str(write_module("unused.py", "").parent))
    module = importlib.import_module("hooked_module")
    write_module("hooked_module.py", HOOKED.format(version=2) + SECOND)
    if again == "reload":
        importlib.reload(module)
    else:
        del sys.modules["hooked_module"]
        importlib.import_module("hooked_module")
    assert answers() == ["a2", "c"]
    assert answers("on_child_end") == ["b2"]
