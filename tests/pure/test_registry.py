"""Job types as authors declare them: the decorator's forms, its refusals, and which modules provide which types."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from sqljobs.schema.errors import BadHandlers, InvalidJob
from sqljobs.schema.outcomes import Backoff, Cause, exponential
from sqljobs.schema.specs import Defaults
from sqljobs.supervisor.handler_modules import load_handlers
from sqljobs.worker_runtime.registry import JobType, defaults_of, handler, lookup
from tests.pure.conftest import WriteModule

pytestmark = pytest.mark.usefixtures("write_module")
TWO = "import sqljobs\n\n@sqljobs.handler\ndef {0}(): ...\n\n@sqljobs.handler\ndef {1}(): ...\n"


def registered(name: str) -> JobType:
    found = lookup(name)
    assert found is not None
    return found


def test_bare_a_handler_stays_a_plain_function() -> None:
    @handler
    def resize(path: str, width: int = 256) -> str:
        return f"{path}:{width}"

    assert resize("a", width=3) == "a:3"
    assert resize.__name__ == "resize"
    assert registered("resize") == JobType("resize", registered("resize").function)
    assert defaults_of("resize") == Defaults()


def test_spec_names_the_arguments_and_fills_in_no_defaults() -> None:
    @handler("image.resize")
    def resize(path: str, width: int = 256, **rest: int) -> None: ...

    spec = resize.spec("a.png", quality=9)
    assert (spec.type, spec.args, spec.given) == ("image.resize", {"path": "a.png", "quality": 9}, {})
    assert resize.spec("a.png", 4).options(key="k").given == {"key": "k"}


def test_a_spec_that_the_function_could_not_be_called_with_is_refused() -> None:
    @handler
    def render(order_id: int) -> None: ...

    untyped: Any = render
    with pytest.raises(InvalidJob, match=r"no argument 'order_ip' .did you mean 'order_id'"):
        untyped.spec(order_ip=1)
    with pytest.raises(InvalidJob, match="missing"):
        untyped.spec()


def test_options_are_checked_and_kept() -> None:
    @handler(
        "report.render",
        group="reports",
        weight=3,
        priority=-2,
        max_attempts=7,
        timeout="40h",
        backoff=exponential(1, 60),
        fail_on=(ValueError, "memory"),
    )
    def render() -> None: ...

    found = registered("report.render")
    assert found.defaults == Defaults("reports", 3, -2, 7, 144_000.0)
    assert defaults_of("report.render") is found.defaults
    assert found.backoff == Backoff(1, 60)
    assert found.is_fatal(Cause.ERROR, UnicodeDecodeError("utf-8", b"", 0, 1, "a ValueError too"))
    assert found.is_fatal(Cause.MEMORY)
    assert not found.is_fatal(Cause.ERROR, KeyError())
    assert not found.is_fatal(Cause.TIMEOUT)
    assert render.spec().given == {}


def test_async_functions_are_handlers_too() -> None:
    @handler(max_attempts=2)
    async def fetch(url: str) -> str:
        return url

    assert asyncio.run(fetch("x")) == "x"
    assert fetch.spec(url="x").args == {"url": "x"}


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"wieght": 2}, TypeError, "unknown option 'wieght' of handler 'f' .did you mean 'weight'"),
        ({"zzz": 2}, TypeError, "unknown option 'zzz' of handler 'f'$"),
        ({"weight": 0}, InvalidJob, "weight must be"),
        ({"priority": 1001}, InvalidJob, "priority must be"),
        ({"max_attempts": True}, InvalidJob, "max_attempts must be"),
        ({"timeout": "soon"}, InvalidJob, "timeout must be"),
        ({"group": " a"}, InvalidJob, "group"),
        ({"backoff": 3}, InvalidJob, "backoff must be sqljobs.exponential"),
        ({"fail_on": "memroy"}, InvalidJob, "not 'memroy' .did you mean 'memory'.."),
        ({"fail_on": (ValueError, 3)}, InvalidJob, "fail_on takes exception classes and causes, not 3"),
        ({"uses": {"gpu": 0}}, InvalidJob, r"uses\['gpu'\] must be a number from 0.000001"),
        ({"memory": "2 apples"}, InvalidJob, "memory must be bytes or text such as"),
        ({"on_failed": ""}, InvalidJob, "on_failed"),
    ],
)
def test_refused_options(options: dict[str, Any], error: type[Exception], says: str) -> None:
    def f() -> None: ...

    with pytest.raises(error, match=says):
        handler(**options)(f)
    assert lookup("f") is None


def test_none_means_not_given() -> None:
    @handler(weight=None, memory=None, uses=None, backoff=None, fail_on=None)
    def unset() -> None: ...

    assert registered("unset") == JobType("unset", registered("unset").function)


def test_what_cannot_be_a_handler() -> None:
    def star(*paths: str) -> None: ...

    with pytest.raises(InvalidJob, match=r"\*paths has no names .* take a list instead"):
        handler(star)
    with pytest.raises(InvalidJob, match="type"):
        handler("bad\nname")(test_none_means_not_given)
    for other in (int, print, staticmethod(test_none_means_not_given)):
        with pytest.raises(TypeError, match=f"goes on a function, not on a {type(other).__name__}"):
            handler()(other)


def test_a_name_twice_in_one_module_names_both_lines(write_module: WriteModule) -> None:
    path = write_module("twice.py", TWO.format("a", "a"))
    with pytest.raises(BadHandlers, match=rf"'a' is registered twice in {path}: lines 3 and 6; give one"):
        load_handlers(path)


def test_a_name_twice_is_seen_below_a_shared_decorator(write_module: WriteModule) -> None:
    write_module(
        "wrapping.py",
        """
        import functools
        def logged(function):
            @functools.wraps(function)
            def inner(*args, **kwargs):
                return function(*args, **kwargs)
            return inner
        """,
    )
    text = "import sqljobs\nfrom wrapping import logged\n\n@sqljobs.handler('x')\n@logged\ndef {0}(n: int): ...\n"
    path = write_module("wrapped.py", text.format("one") + "\n@sqljobs.handler('x')\n@logged\ndef two(n: int): ...\n")
    with pytest.raises(BadHandlers, match=rf"'x' is registered twice in {path}: lines 4 and 8"):
        load_handlers(path)
    first, second = write_module("first.py", text.format("one")), write_module("second.py", text.format("two"))
    with pytest.raises(BadHandlers, match=rf"'x' is registered twice, in {first} .line 4. and {second} .line 4."):
        load_handlers([first, second])


def test_the_same_file_loaded_again_is_fine_also_changed(write_module: WriteModule) -> None:
    path = write_module("again.py", TWO.format("a", "b"))
    assert load_handlers([path, path]).keys() == load_handlers(path).keys() == {"a", "b"}
    write_module("again.py", "# a line more\n" + TWO.format("a", "b"))
    assert load_handlers(path)["a"].place == (str(path), 4)
    assert registered("a").place == (str(path), 4)


def test_two_files_with_one_type_are_refused_with_both_modules(write_module: WriteModule) -> None:
    paths = [write_module(name, TWO.format("a", name[0])) for name in ("first.py", "second.py")]
    with pytest.raises(BadHandlers, match=rf"'a' is registered twice, in {paths[0]} .line 3. and {paths[1]} .line 3."):
        load_handlers(paths)
    assert load_handlers(paths[0]).keys() == {"a", "f"}


def test_two_files_of_one_name_in_two_folders_are_two_modules(write_module: WriteModule) -> None:
    paths = [write_module(f"{folder}/jobs.py", TWO.format(folder, folder * 2)) for folder in ("x", "y")]
    assert load_handlers(paths).keys() == {"x", "xx", "y", "yy"}
    third = write_module("z/jobs.py", TWO.format("z", "x"))
    with pytest.raises(BadHandlers, match=rf"'x' is registered twice, in {paths[0]} .line 3. and {third} .line 6."):
        load_handlers([*paths, third])


def test_types_of_submodules_and_of_imported_functions_are_provided(write_module: WriteModule, tmp_path: Path) -> None:
    write_module("shop/__init__.py", "from shop import orders\n")
    write_module("shop/orders.py", TWO.format("ship", "bill"))
    write_module("shop/unloaded.py", TWO.format("never", "nowhere"))
    write_module("elsewhere.py", TWO.format("one", "other"))
    facade = write_module("facade.py", "from elsewhere import one\n")
    assert load_handlers("shop", app_dir=tmp_path).keys() == {"ship", "bill"}
    assert load_handlers("shop.orders", app_dir=tmp_path).keys() == {"ship", "bill"}
    assert load_handlers(facade).keys() == {"one", "other"}
    assert load_handlers([sys.modules["shop"], facade]).keys() == {"ship", "bill", "one", "other"}
