"""What JSON cannot hold: each refusal is one line that names the place, whatever the value's own code does."""

import math
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import MAX_BYTES, MAX_DEPTH, from_json, to_json
from tests.pure.sample_types import Level


class Odd(str):
    __hash__ = object.__hash__


class Loop(Enum):
    ITSELF = 1

    @property
    def value(self) -> object:  # type: ignore[override]
        return self


class Real(float):
    def __float__(self) -> float:
        return 99.0


@dataclass
class Point:
    x: int
    y: Any = 0
    name: str = field(default="p", repr=False)


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
        (Fraction(1, 3), "is a Fraction, which JSON cannot hold; pass its parts"),
        (array("d", [1.0]), "is an array, which JSON cannot hold; pass its .item() or .tolist()"),
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
        *(({Level.HIGH: 1}, "has the key 2"), ({(1, 2): 1}, "has the key a tuple")),
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
    with pytest.raises(InvalidJob, match="nested too deep"):
        to_json(Loop.ITSELF)
    with pytest.raises(InvalidJob, match=r"^args has the key 'a' twice$"):
        to_json({Odd("a"): 1, Odd("a"): 2})
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
