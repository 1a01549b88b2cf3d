"""What an annotation refuses: every refusal names the place, what is expected there and what was found."""

import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from sqljobs.schema.errors import InvalidJob
from sqljobs.worker_runtime.annotations import convert
from tests.pure.sample_types import (
    Access,
    Box,
    Color,
    Email,
    Level,
    Lost,
    Options,
    Order,
    Plain,
    Point,
    Seeded,
    Span,
    T,
    Tree,
)

SCALARS: list[tuple[Any, Any, str]] = [
    *((1, bool, " must be true or false, not 1"), (None, bool, " must be true or false, not None")),
    *((True, int, " must be an integer, not True"), (1.0, int, " must be an integer, not 1.0")),
    *(("1", int, " must be an integer, not '1'"), (True, float, " must be a number, not True")),
    *((10**400, float, " must be a number, not an int of 1329 bits"), ("1.5", float, " must be a number")),
    *((None, str, " must be text, not None"), (7, str, " must be text, not 7"), ("", None, " must be None, not ''")),
    ("2026-11-29T12:00:00", datetime, " must be a time with UTC offset such as '2026-11-29T12:00:00+00:00', not '2026"),
    *((0, datetime, " must be a time with"), ("2026-11-29T12:00:00Z", date, " must be a date such as '2026-11-29'")),
    *((1.5, Decimal, " must be a decimal number as text such as '12.50', or an integer"), (True, Decimal, " must be")),
    *(("x", Decimal, " must be a decimal"), ("NaN", Decimal, " must be a decimal"), ("Infinity", Decimal, " must")),
    *(("x", uuid.UUID, " must be a UUID such as"), (1, Path, " must be a path as text, not 1")),
    ("x", Email, " must be text, not 'x' (no @ in it)"),
    ("reed", Color, " must be one of 'red', a list, '1.5', not 'reed' (did you mean 'red'?)"),
    *((True, Level, " must be one of 1, 2, not True"), (1.0, Level, " must be one of"), (3, Level, " must be one of")),
    *((8, Access, " must be one of 1, 2, not 8"), ("never stored", Color, " must be one of 'red'")),
    *((2, Literal[1, "a"], " must be one of 1, 'a', not 2"), (True, Literal[1], " must be one of 1, not True")),
]
CONTAINERS: list[tuple[Any, Any, str]] = [
    *(("ab", list[str], " must be a list, not 'ab'"), ({}, list, " must be a list, not a dict")),
    *(([1, "2"], list[int], "[1] must be an integer, not '2'"), ([], dict, " must be an object, not a list")),
    ({"a b": 1}, dict[str, str], "['a b'] must be text, not 1"),
    ({"a": 1}, dict[int, int], ": key 'a' must be an integer, not 'a'"),
    *(([1], tuple[int, int], " must be a list of 2 items, not of 1"), ([1, "a"], tuple[int, int], "[1] must be an")),
    *((1.5, int | str | None, " must be an integer or text or None, not 1.5"), ("x", date | None, " must be a date")),
    *(([1, "a"], list[int] | None, "[1] must be an"), (1, list[int] | date, " must be list[int] or a date such as")),
]
RECORDS: list[tuple[Any, Any, str]] = [
    (3, Point, " must be an object with the fields of Point, not 3"),
    ({}, Point, " lacks the field 'x', which Point needs"),
    ({"x": 1, "tag": 0}, Point, " has the field 'tag', which Point lacks (did you mean 'tags'?); it takes x, y, tags"),
    *(({"x": 1, "unit": "m"}, Point, " has the field 'unit'"), ({"x": 1, "tags": [1]}, Point, ".tags[0] must be text")),
    ({"x": -1}, Point, " was refused: ValueError: x is below 0"),
    ({"x": 1001}, Point, " was refused: SystemExit: x is too far out"),
    ({"value": 1}, Seeded, " was refused: TypeError: "),
    ({"name": "a", "size": "b"}, Options, ".size must be an integer"),
    *(({"size": 1}, Options, " lacks the field 'name'"), ({"name": "a", "x": 1}, Options, " has the field 'x'")),
    ([], Span, " must be a list with the fields of Span (start, end), not a list"),
    *(([1, 2, 3], Span, " must be a list with"), (["a"], Span, ".start must be an integer")),
    *(({"id": 3}, Order, " was refused: ValidationError: "), ({}, Plain, " was refused: KeyError: 'value'")),
    ({"name": "a", "children": [{}]}, Tree, ".children[0] lacks the field 'name'"),
]
UNSUPPORTED: list[tuple[Any, Any, str]] = [
    (1, complex, " is annotated complex, which cannot be made from JSON; use"),
    *((1, Callable[[], int], " is annotated Callable"), (1, type[int], " is annotated type")),
    *(("", bytes, " is annotated bytes"), (1, T, " is annotated ~T"), (1, timedelta, " is annotated timedelta")),
    ({"content": 1}, Box[int], ".content is annotated ~T"),
]


@pytest.mark.parametrize(("value", "annotation", "fault"), SCALARS + CONTAINERS + RECORDS + UNSUPPORTED, ids=str)
def test_a_refusal_names_the_place_and_what_is_expected(value: object, annotation: Any, fault: str) -> None:
    for outer, kind, place in ((value, annotation, "args.x"), ([value], list[annotation], "args.x[0]")):
        with pytest.raises(InvalidJob) as refusal:
            convert(outer, kind, "args.x")
        text = str(refusal.value)
        assert text.startswith(place + fault)
        assert text.isprintable()
        assert len(text) < 500


def test_a_class_whose_annotations_lead_nowhere_is_named() -> None:
    with pytest.raises(InvalidJob, match=r"^Lost: an annotation of its fields cannot be resolved \(name 'Nowhere' is"):
        convert({"what": 1}, Lost, "args.x")
