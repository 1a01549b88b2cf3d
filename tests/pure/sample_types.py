"""Types of arguments that the tests of conversion share."""

import sys
import uuid
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import ClassVar, Generic, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import pydantic

T = TypeVar("T")
Id = NewType("Id", int)


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
        if self.x > 1000:
            sys.exit("x is too far out")
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
    items: tuple[int, ...] = ()


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
