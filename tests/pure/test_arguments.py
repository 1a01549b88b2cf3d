"""A handler's arguments: bound from storage, named for storage, read from the command line, refused by name."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.worker_runtime.arguments import (
    BoundCall,
    argument_from_text,
    bind_arguments,
    check_signature,
    named_arguments,
)
from tests.pure.sample_types import Tree

if TYPE_CHECKING:
    from somewhere import Frame, Table  # type: ignore[import-not-found]


@dataclass
class Size:
    width: int
    height: int = 1


def resize(path: Path, width: int = 256, *, size: "Size | None" = None) -> "Table":
    """Only bound, never called."""


def _loose(first, second=2, /, third=None, *, fourth: int = None, **rest: date):  # type: ignore # noqa: RUF013
    return first, second, third, fourth, rest


_loose.__name__ = "loose"
loose: Any = _loose


def framed(frame: "Frame", width: int = 1) -> None:
    """Only bound, never called."""


async def render(order_id: int) -> None:
    """Only bound, never called."""


def logged(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: object, **kwargs: object) -> object:
        return fn(*args, **kwargs)

    return inner


def refusal(fn: Callable[..., Any], args: object) -> str:
    with pytest.raises(InvalidJob) as caught:
        bind_arguments(fn, args)
    text = str(caught.value)
    assert text.isprintable()
    return text


def test_arguments_are_converted_by_annotation() -> None:
    bound = bind_arguments(resize, {"width": 9, "path": "/a", "size": {"width": 3}})
    assert bound == BoundCall((), {"path": Path("/a"), "width": 9, "size": Size(3)})
    assert bind_arguments(resize, {"path": "/a"}).keywords == {"path": Path("/a")}
    assert bind_arguments(render, {"order_id": 7}) == BoundCall((), {"order_id": 7})
    assert bind_arguments(lambda: None, None) == BoundCall((), {})
    assert bind_arguments(logged(resize), {"path": "/a"}).keywords == {"path": Path("/a")}
    assert bind_arguments(functools.partial(resize, width=3), {"path": "/a"}).keywords == {"path": Path("/a")}


def test_a_bound_call_can_be_made() -> None:
    bound = bind_arguments(loose, {"first": [1], "third": 3, "on": "2026-11-29"})
    assert loose(*bound.positional, **bound.keywords) == ([1], 2, 3, None, {"on": date(2026, 11, 29)})
    bound = bind_arguments(loose, {"second": "s", "first": None, "fourth": None})
    assert loose(*bound.positional, **bound.keywords) == (None, "s", None, None, {})
    assert bind_arguments(loose, {"first": 1, "fourth": 5}).keywords == {"fourth": 5}


def test_refusals_name_the_argument_and_what_is_expected() -> None:
    assert refusal(resize, {}) == "resize: argument 'path' is missing; it must be a path as text"
    assert refusal(resize, None) == refusal(resize, {})
    assert refusal(loose, None) == "loose: argument 'first' is missing"
    assert refusal(resize, {"path": "a", "widht": 1}) == (
        "resize: no argument 'widht' (did you mean 'width'?); it takes path, width, size"
    )
    assert refusal(lambda: None, {"a": 1}) == "<lambda>: no argument 'a'; it takes none"
    assert refusal(resize, {"path": 7}) == "resize: args.path must be a path as text, not 7"
    assert refusal(resize, {"path": "a", "width": None}) == "resize: args.width must be an integer, not None"
    assert refusal(resize, {"path": "a", "size": {"width": "x"}}) == (
        "resize: args.size.width must be an integer, not 'x'"
    )
    assert refusal(loose, {"first": 1, "on": "x"}).startswith("loose: args.on must be a date such as '2026-11-29'")
    assert refusal(resize, [1]) == "resize: args must be an object of arguments by name, not a list"
    assert refusal(lambda: None, {"a\n": 1}) == "<lambda>: no argument 'a\\n'; it takes none"


def grown(tree: Tree) -> None:
    """Only bound, never called."""


def test_a_value_too_deep_to_convert_is_refused() -> None:
    deep: dict[str, object] = {"name": "leaf"}
    for _ in range(3000):
        deep = {"name": "twig", "children": [deep]}
    assert refusal(grown, {"tree": deep}) == "grown: args.tree is nested too deep"


def test_annotations_that_lead_nowhere_are_named_where_they_matter() -> None:
    assert bind_arguments(resize, {"path": "a"})  # what it returns doesn't matter
    text = refusal(framed, {"frame": {}})
    assert text.startswith("framed: the annotation 'Frame' of 'frame' cannot be resolved (name 'Frame' is not defined)")
    assert "outside `if TYPE_CHECKING`" in text


def test_star_args_are_refused_at_the_door() -> None:
    def several(first: int, *paths: str) -> None:
        """Only bound, never called."""

    for refuse in (check_signature, lambda fn: bind_arguments(fn, {}), lambda fn: named_arguments(fn, (), {})):
        with pytest.raises(InvalidJob, match=r"^several: \*paths has no names .* as in def several\(paths: list\)$"):
            refuse(several)
    with pytest.raises(InvalidJob, match=r"^type: its arguments cannot be read .*; use a plain function$"):
        check_signature(type)
    for fn in (resize, loose, render, framed, logged(resize), lambda: None):
        check_signature(fn)


def test_a_call_is_named_as_it_is_stored() -> None:
    assert named_arguments(resize, (Path("a"),), {"width": 3}) == {"path": Path("a"), "width": 3}
    assert named_arguments(loose, (1, 2), {"fourth": 4, "more": 5}) == {"first": 1, "second": 2, "fourth": 4, "more": 5}
    for args, kwargs, fault in (
        ((), {}, "resize: missing a required argument: 'path'"),
        (("a",), {"widht": 1}, "resize: no argument 'widht' (did you mean 'width'?); it takes path, width, size"),
        (("a", 1, 2), {}, "resize: too many positional arguments"),
        (("a",), {"path": "b"}, "resize: multiple values for argument 'path'"),
    ):
        with pytest.raises(InvalidJob) as caught:
            named_arguments(resize, args, kwargs)
        assert str(caught.value) == fault
    with pytest.raises(InvalidJob, match=r"^loose: argument 'first' is given twice"):
        named_arguments(loose, (1,), {"first": 2})


@given(st.fixed_dictionaries({"first": st.integers()}, optional={"second": st.booleans(), "third": st.text("ab")}))
def test_naming_storing_and_binding_make_the_same_call(given_arguments: dict[str, Any]) -> None:
    positional = [given_arguments[name] for name in ("first", "second") if name in given_arguments]
    named = {name: given_arguments[name] for name in ("third",) if name in given_arguments}
    stored = to_json(named_arguments(loose, tuple(positional), named))
    bound = bind_arguments(loose, from_json(stored))
    assert loose(*bound.positional, **bound.keywords) == loose(*positional, **named)


def typed(n: int, s: str, d: Decimal, p: Path, t: list[int], o: str | None, b: bool) -> None:
    """Only bound, never called."""


def dated(on: date, i: "int | str", f: float) -> None:
    """Only bound, never called."""


@pytest.mark.parametrize(
    ("fn", "name", "text", "value"),
    [
        *((typed, "n", "3", 3), (typed, "s", "3", "3"), (typed, "s", "true", "true"), (typed, "s", "", "")),
        *((typed, "s", '"x"', '"x"'), (typed, "d", "1.50", "1.50"), (typed, "p", "a b", "a b"), (typed, "p", "7", "7")),
        *((typed, "t", "[1,2]", [1, 2]), (typed, "o", "null", None), (typed, "o", "x", "x")),
        *((typed, "b", "false", False), (dated, "on", "2026-11-29", "2026-11-29"), (dated, "f", "2", 2)),
        *((dated, "on", '"2026-11-29"', "2026-11-29"), (dated, "i", "3", 3), (dated, "i", "x", "x")),
    ],
)
def test_text_is_read_by_annotation(fn: Callable[..., Any], name: str, text: str, value: object) -> None:
    read = argument_from_text(fn, name, text)
    assert read == value
    assert type(read) is type(value)


def test_text_without_annotation_is_json_if_it_parses() -> None:
    assert argument_from_text(loose, "first", "[1]") == [1]
    assert argument_from_text(loose, "first", '"x"') == "x"
    assert argument_from_text(loose, "first", "plain text") == "plain text"
    assert argument_from_text(loose, "first", "[" * 100_000) == "[" * 100_000


def test_text_that_the_annotation_does_not_take_is_refused() -> None:
    for name, text, fault in (
        ("n", "x", "typed: args.n must be an integer, not 'x'"),
        ("n", "1.5", "typed: args.n must be an integer, not 1.5"),
        ("b", "yes", "typed: args.b must be true or false, not 'yes'"),
        ("nn", "1", "typed: no argument 'nn'"),
    ):
        with pytest.raises(InvalidJob) as caught:
            argument_from_text(typed, name, text)
        assert str(caught.value).startswith(fault)
