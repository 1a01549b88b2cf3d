"""JSON as it is stored: what survives the trip, and as what."""

import json
import numbers
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.columns import JsonText
from sqljobs.schema.payloads import from_json, to_json
from tests.pure.sample_types import Color, Level, Mode

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | storable
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(storable, inner, max_size=4), max_leaves=12
)


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Number(int):
    def __int__(self) -> int:
        return 99


class Real(float):
    def __float__(self) -> float:
        return 99.0


class Scalar:
    """As numpy's numbers: of no class of Python's, but registered as what they are."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


class Int64(Scalar):
    pass


class Float32(Scalar):
    pass


numbers.Integral.register(Int64)
numbers.Real.register(Float32)


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
        *((Color.RED, '"red"'), (Color.PAIR, "[1,2]"), (Level.HIGH, "2"), (Mode.FAST, '"fast"')),
        *(({Mode.FAST: 1}, '{"fast":1}'), (Text("a"), '"a"'), (Number(7), "7"), (Real(1.5), "1.5")),
        *((Int64(2**40), "1099511627776"), (Float32(0.5), "0.5")),
        *((Pair(1, 2), "[1,2]"), ((), "[]"), (OrderedDict(b=1, a=2), '{"b":1,"a":2}')),
        (MappingProxyType({"a": (1,)}), '{"a":[1]}'),
        (Point(1, [Point(2)]), '{"x":1,"y":[{"x":2,"y":0,"name":"p"}],"name":"p"}'),
        (Order(id=ID, at=NOON), f'{{"id":"{ID}","at":"2026-11-29T12:00:00Z"}}'),
    ],
)
def test_python_values_become_plain_json(value: object, text: str) -> None:
    assert to_json(value) == text
    assert type(json.loads(text)) in (str, int, float, list, dict)
