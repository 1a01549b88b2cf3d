"""JSON as it is stored: what survives the trip, and that each refusal names the place."""

import json
import math
import sys
import uuid
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.columns import JsonText
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import MAX_BYTES, MAX_DEPTH, from_json, to_json

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | storable
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable, inner, max_size=4), max_leaves=12
)


class Color(Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(IntEnum):
    HIGH = 3


class Mode(StrEnum):
    FAST = "fast"


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Number(int):
    def __int__(self) -> int:
        return 99


class Real(float):
    def __float__(self) -> float:
        return 99.0


@dataclass
class Point:
    x: int
    y: Any = 0
    name: str = field(default="p", repr=False)


class Order(pydantic.BaseModel):
    id: uuid.UUID
    at: datetime


Pair = namedtuple("Pair", "left right")
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
ID = uuid.UUID(int=1)


@given(documents)
def test_json_values_come_back_equal_and_of_the_same_type(document: object) -> None:
    text = to_json(document)
    if document is None:
        assert text is None
        return
    assert isinstance(text, JsonText)
    back = from_json(text)
    assert back == document
    assert repr(back) == repr(document)  # 1, 1.0 and True, -0.0 and the order of keys, which == doesn't see


@given(st.integers(2**63, 2**400) | st.integers(-(2**400), -(2**63)))
def test_integers_are_exact(number: int) -> None:
    assert from_json(to_json({"n": number})) == {"n": number}


def test_the_text_is_compact_and_plain() -> None:
    assert to_json({"b": [1, 2.5, None], "a": "é😀"}) == '{"b":[1,2.5,null],"a":"é😀"}'
    assert to_json(None) is None
    assert from_json(None) is None
    assert to_json(10**4299) == str(10**4299)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((NOON, '"2026-11-29T12:00:00+00:00"'), (date(2026, 11, 29), '"2026-11-29"'), (ID, f'"{ID}"')),
        (datetime(2026, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=-3))), '"2026-01-02T03:04:05.000006-03:00"'),
        *((Decimal("12.50"), '"12.50"'), (Path("/a/b"), '"/a/b"'), (PurePosixPath("é"), '"é"')),
        *((Color.RED, '"red"'), (Color.PAIR, "[1,2]"), (Level.HIGH, "3"), (Mode.FAST, '"fast"')),
        *(({Mode.FAST: 1}, '{"fast":1}'), (Text("a"), '"a"'), (Number(7), "7"), (Real(1.5), "1.5")),
        *((Pair(1, 2), "[1,2]"), ((), "[]"), (OrderedDict(b=1, a=2), '{"b":1,"a":2}')),
        (MappingProxyType({"a": (1,)}), '{"a":[1]}'),
        (Point(1, [Point(2)]), '{"x":1,"y":[{"x":2,"y":0,"name":"p"}],"name":"p"}'),
        (Order(id=ID, at=NOON), f'{{"id":"{ID}","at":"2026-11-29T12:00:00Z"}}'),
    ],
)
def test_python_values_become_plain_json(value: object, text: str) -> None:
    assert to_json(value) == text
    assert type(json.loads(text)) in (str, int, float, list, dict)


def raiser(failure: BaseException) -> Callable[..., Any]:
    def fail(*_args: object, **_named: object) -> Any:
        raise failure

    return fail


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        *(
            ("a\0b", "has a NUL character"),
            ("\ud800", "has a lone surrogate"),
            (Path("/\udc80"), "has a lone surrogate"),
        ),
        *((math.nan, "is nan, which JSON cannot hold"), (-math.inf, "is -inf"), (Real(math.inf), "is inf")),
        *((Decimal("NaN"), "is NaN"), (Decimal("-Infinity"), "is -Infinity"), (Decimal("sNaN123"), "is sNaN123")),
        *(
            (datetime(2026, 11, 29), "is 2026-11-29 00:00:00, which has no UTC offset"),
            ({1, 2}, "is a set, which JSON cannot hold; pass a list"),
        ),
        *(
            (frozenset(), "is a frozenset, which"),
            (b"x", "is a bytes, which JSON cannot hold; pass text"),
            (1j, "is a complex"),
        ),
        *(
            (object(), "is an object, which"),
            (Point, "is a type"),
            (Exception("x"), "is an Exception"),
            (len, "is a builtin"),
        ),
        *((timedelta(1), "is a timedelta"), (range(3), "is a range"), (iter([]), "is a list_iterator")),
        *(
            ({1: 2}, "has the key 1; keys must be text"),
            ({None: 2}, "has the key None"),
            ({b"a": 1}, "has the key a bytes"),
        ),
        *(({"a\0": 1}, "has a key with a NUL character"), ({"\udfff": 1}, "has a key with a lone surrogate")),
        *(({Level.HIGH: 1}, "has the key 3"), ({(1, 2): 1}, "has the key a tuple")),
        pytest.param(10**4300, "is an integer of more than 4300 digits", id="digits"),
    ],
)
def test_a_refusal_names_the_place(value: object, fault: str) -> None:
    for outer, place in (
        (value, "args"),
        ({"items": [0, {"name": value}]}, "args.items[1].name"),
        (Point(1, (value,)), "args.y[0]"),
        ({"two words": value}, "args['two words']"),
    ):
        with pytest.raises(InvalidJob) as refusal:
            to_json(outer)
        assert str(refusal.value).startswith(f"{place} {fault}")
        assert str(refusal.value).isprintable()
    with pytest.raises(InvalidJob, match=r"^result "):
        to_json(value, where="result")


def test_cycles_and_depth() -> None:
    cycle: list[object] = [1]
    cycle.append({"again": cycle})
    with pytest.raises(InvalidJob, match=r"^args\[1\]\.again contains itself$"):
        to_json(cycle)
    node = Point(1)
    node.y = node
    with pytest.raises(InvalidJob, match=r"^args\.y contains itself$"):
        to_json(node)
    shared = [1]
    assert to_json([shared, shared]) == "[[1],[1]]"
    deep: list[object] = []
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert from_json(to_json(deep)) == deep
    for extra in (1, 10**5):
        for _ in range(extra):
            deep = [deep]
        with pytest.raises(InvalidJob, match=r"^args is nested too deep; at most 100 levels"):
            to_json(deep)


def test_size_is_counted_in_bytes() -> None:
    assert len(to_json("x" * (MAX_BYTES - 2)) or "") == MAX_BYTES
    with pytest.raises(
        InvalidJob, match=rf"^args is {MAX_BYTES + 1} bytes of JSON and at most {MAX_BYTES} are kept; store"
    ):
        to_json("x" * (MAX_BYTES - 1))
    with pytest.raises(InvalidJob, match=r"^result is at least 80000001 bytes of JSON"):
        to_json("😀" * 20_000_000, where="result")
    with pytest.raises(InvalidJob, match=f"^args is {6 * 10**6 + 2} bytes"):
        to_json("\1" * 10**6)
    bomb: list[object] = ["x" * 1000]
    for _ in range(50):
        bomb = [bomb, bomb, bomb, bomb]
    with pytest.raises(InvalidJob, match=r"^args is at least"):
        to_json(bomb)


def test_what_a_values_own_code_raises_becomes_a_refusal() -> None:
    failure = ValueError("two\nlines")
    model = type("Model", (), {"model_dump": raiser(failure), "model_validate": None, "__iter__": None})
    model.model_validate = classmethod(raiser(failure))  # type: ignore[attr-defined]
    lying = type("Lying", (), {"__class__": property(raiser(failure))})
    broken = type("Broken", (dict,), {"items": raiser(failure)})
    for kind in (model, lying, broken):
        with pytest.raises(InvalidJob, match=r"^args cannot be read: ValueError: two lines$"):
            to_json([kind()])
    gone = Point(1)
    del gone.x
    with pytest.raises(InvalidJob, match="AttributeError"):
        to_json(gone)
    endless = type("Endless", (), {"model_validate": len, "model_dump": lambda self, **_: [type(self)()]})
    with pytest.raises(InvalidJob, match="nested too deep"):
        to_json(endless())
    with pytest.raises(KeyboardInterrupt):  # a signal is no property of the value
        to_json(type("Stopped", (dict,), {"items": raiser(KeyboardInterrupt())})())


@pytest.mark.parametrize(
    "text",
    ["", "{", "nul", '{"a": NaN}', "-Infinity", pytest.param("[" * 100_000, id="deep"), "1 2", "9" * 5000, "'a'"],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidJob, match=r"^--args is (not JSON: |nested too deep)") as refusal:
        from_json(text, where="--args")
    assert str(refusal.value).isprintable()


def test_a_lower_limit_on_digits_is_a_refusal() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(InvalidJob, match=r"^args cannot be read: ValueError"):
            to_json({"n": 10**1000})
    finally:
        sys.set_int_max_str_digits(before)
