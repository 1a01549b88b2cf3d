"""Stored JSON as the annotation asks: each supported type comes back equal, and everything else is refused by place."""

import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.worker_runtime.annotations import convert

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
T = TypeVar("T")


class Color(Enum):
    RED = "red"
    PAIR = (1, 2)
    EXACT = Decimal("1.5")
    SECRET = b"never stored"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mode(StrEnum):
    FAST = "fast"

    @classmethod
    def _missing_(cls, value: object) -> "Mode | None":
        return cls.FAST if value == "FAST" else None


class Access(Flag):
    READ = 1
    WRITE = 2


class Email(str):
    """Text that checks itself."""

    def __new__(cls, text: str) -> "Email":
        if "@" not in text:
            raise ValueError("no @ in it")
        return super().__new__(cls, text)


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5
    tags: tuple[str, ...] = ()
    area: float = field(init=False, default=0.0)
    unit: ClassVar[str] = "cm"

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is below 0")
        object.__setattr__(self, "area", self.x * self.y)


@dataclass
class Tree:
    name: str
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Lost:
    what: "Nowhere"  # type: ignore[name-defined] # noqa: F821 - unresolvable on purpose


@dataclass
class Seeded:
    seed: InitVar[int]
    value: int = 0


class Options(TypedDict):
    name: str
    size: "NotRequired[int]"


class Span(NamedTuple):
    start: int
    end: int = 9


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    id: uuid.UUID
    at: datetime
    price: Decimal = pydantic.Field(alias="unitPrice", gt=0)
    items: tuple[Point, ...] = ()


class Plain:
    """Speaks pydantic's two methods and nothing else."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]

    def model_dump(self, mode: str) -> object:
        return {"value": self.value, "mode": mode}

    @classmethod
    def model_validate(cls, value: dict[str, object]) -> "Plain":
        return cls(value["value"])


Id = NewType("Id", int)
offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(timezones=offsets)
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
points = st.builds(Point, st.integers(0), numbers, st.lists(words, max_size=3).map(tuple))
trees = st.recursive(
    st.builds(Tree, words), lambda inner: st.builds(Tree, words, st.lists(inner, max_size=3)), max_leaves=6
)
orders = st.builds(
    lambda *given: Order.model_validate(dict(zip(("id", "at", "unitPrice", "items"), given, strict=True))),
    *(st.uuids(), moments, st.decimals("0.01", 10**6, places=2), st.lists(points, max_size=2).map(tuple)),
)

SUPPORTED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    *((bool, st.booleans()), (int, st.integers()), (float, numbers), (str, words), (None, st.none())),
    *((datetime, moments), (date, st.dates()), (Decimal, st.decimals(allow_nan=False, allow_infinity=False))),
    *((uuid.UUID, st.uuids()), (Path, words.map(Path)), (PurePath, words.map(PurePath)), (Email, st.just(Email("a@b")))),
    *((PureWindowsPath, words.map(PureWindowsPath)), (PurePosixPath, words.map(PurePosixPath))),
    *((Color, st.sampled_from([Color.RED, Color.PAIR, Color.EXACT])), (Level, st.sampled_from(Level))),
    *((Mode, st.just(Mode.FAST)), (Access, st.sampled_from([Access.READ, Access.READ | Access.WRITE, Access(0)]))),
    *((Point, points), (Tree, trees), (Order, orders), (Plain, st.builds(Plain, words))),
    *((Span, st.builds(Span, st.integers(), st.integers())), (Options, st.builds(lambda n: {"name": n}, words))),
    *((list[date], st.lists(st.dates(), max_size=3)), (typing.List[int], st.lists(st.integers(), max_size=3))),  # noqa: UP006
    (dict[str, uuid.UUID], st.dictionaries(words, st.uuids(), max_size=3)),
    *((Mapping[Mode, int], st.just({Mode.FAST: 3})), (dict, st.just({"a": [1]})), (list, st.just([{"a": 1.5}]))),
    (tuple[int, date, str], st.tuples(st.integers(), st.dates(), words)),
    *((tuple[Decimal, ...], st.lists(st.decimals(0, 9, places=1)).map(tuple)), (tuple, st.just((1, "a")))),
    *((Sequence[Level], st.lists(st.sampled_from(Level), max_size=3)), (Any, words), (object, st.booleans())),
    *((Optional[date], st.none() | st.dates()), (int | None, st.none() | st.integers())),
    *((int | str, st.integers() | words), (Union[float, int], st.integers() | numbers), (str | bool | None, st.booleans())),
    *((Point | Order, points | orders), (list[Point | None], st.lists(st.none() | points, max_size=2))),
    (Literal[1, "1", True, None, Mode.FAST, Level.HIGH], st.sampled_from([1, "1", True, None, Mode.FAST, Level.HIGH])),
    *((Annotated[date, "of birth"], st.dates()), (Id, st.integers()), (Annotated[Id | None, 1], st.none() | st.integers())),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "strategy"), SUPPORTED, ids=[str(annotation) for annotation, _ in SUPPORTED])
def test_a_supported_type_comes_back_equal(annotation: Any, strategy: st.SearchStrategy[Any]) -> None:
    @given(strategy)
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


def test_small_conversions() -> None:
    assert convert(3, float, "x") == 3.0
    assert type(convert(3, float, "x")) is float
    assert convert(3, Decimal, "x") == Decimal(3)
    assert convert("FAST", Mode, "x") is Mode.FAST
    assert convert("2026-11-29T12:00:00Z", datetime, "x") == NOON
    assert convert([1], Span, "x") == Span(1, 9)
    assert convert({"x": 2, "area": 99}, Point, "x") == Point(2)
    assert convert("2026-11-29", date | str, "x") == "2026-11-29"  # JSON's own type first
    assert convert("2026-11-29", int | date, "x") == date(2026, 11, 29)  # then as written
    assert convert({"id": str(uuid.UUID(int=1)), "at": "2026-11-29T12:00:00Z", "price": "2"}, Order, "x").price == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "annotation", "fault"),
    [
        *((1, bool, " must be true or false, not 1"), (True, int, " must be an integer, not True"), (1.0, int, " must be an integer, not 1.0")),
        *(("1", int, " must be an integer, not '1'"), (True, float, " must be a number, not True"), (10**400, float, " must be a number, not an int of")),
        *((None, str, " must be text, not None"), (7, str, " must be text, not 7"), ("", None, " must be None, not ''")),
        ("2026-11-29T12:00:00", datetime, " must be a time with UTC offset such as '2026-11-29T12:00:00+00:00', not '2026-11-29T12:00:00' (it has no"),
        *(("2026-11-29T12:00:00Z", date, " must be a date such as '2026-11-29', not"), (0, datetime, " must be a time with"), ("x", date, " must be a date")),
        *((1.5, Decimal, " must be a decimal number as text"), ("x", Decimal, " must be a decimal"), ("NaN", Decimal, " must be a decimal"), (True, Decimal, " must")),
        *(("x", uuid.UUID, " must be a UUID such as"), (1, Path, " must be a path as text, not 1"), ("x", Email, " must be text, not 'x' (no @ in it)")),
        *(("reed", Color, " must be one of 'red', a list, '1.5', not 'reed' (did you mean 'red'?)"), (True, Level, " must be one of 1, 2, not True")),
        *((1.0, Level, " must be one of"), (3, Level, " must be one of"), (8, Access, " must be one of 1, 2, not 8"), ("never stored", Color, " must be one of")),
        *((2, Literal[1, "a"], " must be one of 1, 'a', not 2"), (True, Literal[1], " must be one of 1, not True"), (1.0, Literal[1], " must be one of 1, not 1.0")),
        *(("ab", list[str], " must be a list, not 'ab'"), ({}, list, " must be a list, not a dict"), ([1, "2"], list[int], "[1] must be an integer, not '2'")),
        *(([], dict, " must be an object, not a list"), ({"a b": 1}, dict[str, str], "['a b'] must be text"), ({"a": 1}, dict[int, int], ": key 'a' must be an integer")),
        *(([1], tuple[int, int], " must be a list of 2 items, not of 1"), ([1, "a"], tuple[int, int], "[1] must be an integer")),
        *((1.5, int | str | None, " must be an integer or text or None, not 1.5"), ("x", Optional[date], " must be a date"), ([1, "a"], list[int] | None, "[1] must be an")),
        *((3, Point, " must be an object with the fields of Point, not 3"), ({}, Point, " lacks the field 'x', which Point needs")),
        ({"x": 1, "tag": []}, Point, " has the field 'tag', which Point lacks (did you mean 'tags'?); it takes x, y, tags"),
        *(({"x": 1, "unit": "m"}, Point, " has the field 'unit'"), ({"x": 1, "tags": [1]}, Point, ".tags[0] must be text, not 1")),
        *(({"x": -1}, Point, " was refused: ValueError: x is below 0"), ({"value": 1}, Seeded, " was refused: TypeError: ")),
        *(({"name": "a", "size": "b"}, Options, ".size must be an integer"), ({"size": 1}, Options, " lacks the field 'name'"), ({"name": "a", "x": 1}, Options, " has the field 'x'")),
        *(([], Span, " must be a list with the fields of Span (start, end), not a list"), ([1, 2, 3], Span, " must be"), (["a"], Span, ".start must be an integer")),
        *(({"id": 3}, Order, " was refused: ValidationError: "), ({}, Plain, " was refused: KeyError: 'value'"), ({"name": "a", "children": [{}]}, Tree, ".children[0] lacks")),
        *((1, complex, " is annotated complex, which cannot be made from JSON; use"), (1, Callable[[], int], " is annotated Callable"), (1, type[int], " is annotated type")),
        *((b"", bytes, " is annotated bytes"), (1, T, " is annotated ~T"), ({"content": 1}, Box[int], ".content is annotated ~T"), (1, timedelta, " is annotated timedelta")),
    ],
)  # fmt: skip
def test_a_refusal_names_the_place_and_what_is_expected(value: object, annotation: Any, fault: str) -> None:
    for outer, kind, place in ((value, annotation, "args.x"), ([value], list[annotation], "args.x[0]")):
        with pytest.raises(InvalidJob) as refusal:
            convert(outer, kind, "args.x")
        text = str(refusal.value)
        assert text.startswith(place + fault)
        assert text.isprintable()
        assert len(text) < 500


def test_a_class_whose_annotations_lead_nowhere_is_named() -> None:
    with pytest.raises(
        InvalidJob, match=r"^Lost: an annotation of its fields cannot be resolved \(name 'Nowhere' is not"
    ):
        convert({"what": 1}, Lost, "args.x")
