"""Stored JSON as the annotation asks: each supported type comes back equal to what was stored, and of its type."""

import typing
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal

import pytest
import typing_extensions
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.worker_runtime.annotations import convert
from tests.pure.sample_types import Access, Color, Email, Id, Level, Mode, Options, Order, Plain, Point, Span, Tree

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)

offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=offsets)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
points = st.builds(Point, st.integers(0, 9), st.floats(-9, 9), st.lists(words, max_size=2).map(tuple))
trees = st.recursive(
    st.builds(Tree, words), lambda inner: st.builds(Tree, words, st.lists(inner, max_size=3)), max_leaves=6
)
prices = st.integers(1, 10**9).map(lambda cents: Decimal(cents).scaleb(-2))
orders = st.builds(
    lambda *given: Order.model_validate(dict(zip(("id", "at", "unitPrice", "items"), given, strict=True))),
    *(st.uuids(), moments, prices, st.lists(st.integers(), max_size=2).map(tuple)),
)
literals = [1, "1", True, None, Mode.FAST, Level.HIGH]

SUPPORTED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    *((bool, st.booleans()), (int, st.integers()), (float, numbers), (str, words), (None, st.none())),
    *((datetime, moments), (date, st.dates()), (uuid.UUID, st.uuids()), (Email, st.just(Email("a@b")))),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    *((Path, words.map(Path)), (PurePath, words.map(PurePath))),
    *((PureWindowsPath, words.map(PureWindowsPath)), (PurePosixPath, words.map(PurePosixPath))),
    *((Color, st.sampled_from([Color.RED, Color.PAIR, Color.EXACT])), (Level, st.sampled_from(Level))),
    *((Mode, st.just(Mode.FAST)), (Access, st.sampled_from([Access.READ, Access.READ | Access.WRITE]))),
    *((Point, points), (Tree, trees), (Order, orders), (Plain, st.builds(Plain, words))),
    *((Span, st.builds(Span, st.integers(), st.integers())), (Options, st.builds(lambda n: {"name": n}, words))),
    *((list[date], st.lists(st.dates(), max_size=3)), (list, st.just([{"a": 1.5}]))),
    (typing.List[int], st.lists(st.integers(), max_size=3)),  # noqa: UP006 - older code still writes it
    *((dict[str, date], st.dictionaries(words, st.dates(), max_size=3)), (dict, st.just({"a": [1]}))),
    *((Mapping[Mode, int], st.just({Mode.FAST: 3})), (typing.Mapping[str, Level], st.just({"a": Level.LOW}))),
    *((tuple[int, date, str], st.tuples(st.integers(), st.dates(), words)), (tuple, st.just((1, "a")))),
    (tuple[Decimal, ...], st.lists(prices, max_size=3).map(tuple)),
    (Sequence[Level], st.lists(st.sampled_from(Level), max_size=3)),
    *((Any, words), (object, st.booleans()), (typing.Hashable | None, st.none())),
    *((int | None, st.none() | st.integers()), (float | int, st.integers() | numbers)),
    (typing.Optional[date], st.none() | st.dates()),  # noqa: UP045
    (typing.Union[int, str], st.integers() | words),  # noqa: UP007
    *((str | bool | None, st.booleans()), (Point | Order, points | orders)),
    *((list[Point | None], st.lists(st.none() | points, max_size=2)), (Literal[*literals], st.sampled_from(literals))),
    *((Annotated[date, "of birth"], st.dates()), (Id, st.integers()), (Annotated[Id | None, 1], st.none())),
]


@pytest.mark.parametrize(("annotation", "strategy"), SUPPORTED, ids=[str(annotation) for annotation, _ in SUPPORTED])
def test_a_supported_type_comes_back_equal(annotation: Any, strategy: st.SearchStrategy[Any]) -> None:
    @given(strategy)
    @settings(max_examples=20)
    def check(value: object) -> None:
        back = convert(from_json(to_json(value)), annotation, "args.x")
        assert back == value
        assert type(back) is type(value)

    check()


def test_sets_are_made_where_they_are_asked_for() -> None:
    assert convert([1, 2, 2], set[int], "x") == {1, 2}
    assert convert(["fast"], frozenset[Mode], "x") == frozenset({Mode.FAST})
    assert convert([1], typing.AbstractSet[int], "x") == {1}
    with pytest.raises(InvalidJob, match=r"^x was refused: TypeError: "):
        convert([[1]], set, "x")


Birthdays = typing_extensions.TypeAliasType("Birthdays", list[date])


def test_a_named_alias_stands_for_what_it_names() -> None:
    assert convert(["2026-11-29"], Birthdays, "x") == [date(2026, 11, 29)]
    with pytest.raises(InvalidJob, match=r"^x\[0\] must be a date"):
        convert([1], Birthdays, "x")


def test_numbers_become_the_wider_type() -> None:
    assert type(convert(3, float, "x")) is float
    assert convert(3, Decimal, "x") == Decimal(3)


def test_a_class_may_have_a_say() -> None:
    assert convert("FAST", Mode, "x") is Mode.FAST
    assert convert([1], Span, "x") == Span(1, 9)
    assert convert({"x": 2, "area": 99}, Point, "x") == Point(2)  # what is computed is computed anew
    by_name = {"id": str(uuid.UUID(int=1)), "at": "2026-11-29T12:00:00Z", "price": "2"}
    by_alias = {"id": str(uuid.UUID(int=1)), "at": "2026-11-29T12:00:00Z", "unitPrice": "2"}
    assert convert(by_name, Order, "x") == convert(by_alias, Order, "x")


def test_a_union_takes_json_s_own_type_first_and_then_goes_in_order() -> None:
    assert convert("2026-11-29", date | str, "x") == "2026-11-29"
    assert convert("2026-11-29", int | date | Path, "x") == date(2026, 11, 29)
    assert convert("2026-11-29", int | Path | date, "x") == Path("2026-11-29")
    assert convert(3, Decimal | float, "x") == Decimal(3)
    assert convert("2026-11-29T12:00:00Z", date | datetime, "x") == NOON
