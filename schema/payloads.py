"""Arguments and results as plain JSON text, and back. Says no in one line to whatever would not survive the trip."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from numbers import Integral, Rational, Real
from pathlib import PurePath
from typing import NoReturn
from uuid import UUID

from sqljobs.schema.columns import JsonText
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.graph import Children
from sqljobs.schema.renderings import below, one_line, safe_text, safe_traceback, shown, type_name, with_article

__all__ = ["MAX_BYTES", "MAX_DEPTH", "from_json", "is_model", "safe_text", "safe_traceback", "to_json", "to_plain"]

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 100
MAX_DIGITS = 4300  # Python's own limit for reading an integer from text

_LEAVES = (datetime, date, Decimal, UUID, PurePath)
_INT_BOUND = 10**MAX_DIGITS

# Where a value stands: a name, or (place of the container, key or index). Rendered only for an error.
_Place = str | tuple["_Place", "str | int"]


def to_json(value: object, *, where: str = "args") -> JsonText | None:
    """`value` as compact JSON text (integers exact, key order kept); None for None, which is SQL NULL.

    Taken besides JSON's own types: tuple, datetime with offset, date, Decimal, UUID, Path, Enum (its value), dataclass,
    pydantic model. Raises `InvalidJob` naming the place, as in `args.items[3].name`, for anything else, for NUL, lone
    surrogates, NaN, Infinity, cycles, more than 100 levels and more than 4 MiB of UTF-8."""
    if value is None:
        return None
    plain = to_plain(value, where=where)
    with _refusals(where):
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    _refuse_oversize(where, len(text.encode()), "")
    return JsonText(text)


def from_json(text: str | None, *, where: str = "args") -> object:
    """The value that `text` holds; None for None. Raises `InvalidJob` where it isn't JSON."""
    if text is None:
        return None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidJob(f"{where} is nested too deep; at most {MAX_DEPTH} levels are kept") from None
    except ValueError as problem:
        raise InvalidJob(f"{where} is not JSON: {one_line(problem)}") from None


def to_plain(value: object, *, where: str = "args") -> object:
    """`value` as JSON's own types, checked and converted as `to_json` says."""
    with _refusals(where):
        return _Walk(where).plain(value, where)


def is_model(kind: object) -> bool:
    """Whether `kind` is a class that dumps and validates itself as pydantic's models do."""
    return (
        isinstance(kind, type)
        and callable(getattr(kind, "model_dump", None))
        and callable(getattr(kind, "model_validate", None))
    )


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """Turn whatever a value's own code raises into `InvalidJob`."""
    try:
        yield
    except InvalidJob:
        raise
    except RecursionError:
        raise InvalidJob(f"{where} is nested too deep; at most {MAX_DEPTH} levels are kept") from None
    except Exception as problem:
        raise InvalidJob(f"{where} cannot be read: {type_name(type(problem))}: {one_line(problem)}") from problem


class _Walk:
    """One pass over a value: the bytes of JSON that it needs at least, and the containers around the present place."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.bytes = -1  # each item brings a comma, the outermost does not
        self.around: set[int] = set()

    def plain(self, value: object, place: _Place) -> object:
        self._count(2)
        kind = type(value)
        if value is None or kind is bool:
            return value
        # The exact types first: most values have them.
        if kind is int:
            return _integer(value, place)  # type: ignore[arg-type] # mypy doesn't narrow by `kind`
        if kind is list or kind is dict:
            return self._container(value, place)
        if isinstance(value, Enum):
            return self.plain(value.value, place)
        if isinstance(value, str):
            return self._text(str.__str__(value), place)
        if isinstance(value, int):
            return _integer(int.__int__(value), place)
        if isinstance(value, float):
            return _finite(float.__float__(value), place)
        if isinstance(value, _LEAVES):
            return self._text(_leaf(value, place), place)
        # Those of numpy, which are numbers by what they say of themselves.
        if isinstance(value, Integral):
            return _integer(int(value), place)
        if isinstance(value, Real) and not isinstance(value, Rational):
            return _finite(float(value), place)
        return self._container(value, place)

    def _container(self, value: object, place: _Place) -> object:
        if id(value) in self.around:
            _refuse(place, "contains itself")
        if len(self.around) == MAX_DEPTH:
            _refuse(self.where, f"is nested too deep; at most {MAX_DEPTH} levels are kept")
        self.around.add(id(value))
        plain = self._members(value, place)
        self.around.discard(id(value))
        return plain

    def _members(self, value: object, place: _Place) -> object:
        if isinstance(value, (list, tuple)):
            return [self.plain(item, (place, index)) for index, item in enumerate(value)]
        if isinstance(value, Mapping):
            return self._object(value.items(), place)
        if is_model(type(value)):
            return self.plain(value.model_dump(mode="json"), place)  # type: ignore[attr-defined] # checked above
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return self._object(((name, getattr(value, name)) for name in names), place)
        return _refuse(place, _advice(value))

    def _object(self, pairs: Iterable[tuple[object, object]], place: _Place) -> dict[str, object]:
        plain: dict[str, object] = {}
        for given, item in pairs:
            if isinstance(given, Enum):
                given = given.value
            if not isinstance(given, str):
                _refuse(place, f"has the key {shown(given)}; keys must be text")
            key = self._text(str.__str__(given), place, "has a key with")
            if key in plain:
                _refuse(place, f"has the key {shown(key)} twice")
            plain[key] = self.plain(item, (place, key))
        return plain

    def _text(self, text: str, place: _Place, has: str = "has") -> str:
        if "\0" in text:
            _refuse(place, f"{has} a NUL character, which databases cannot hold; take it out")
        try:
            self._count(len(text) if text.isascii() else len(text.encode()))
        except UnicodeEncodeError:
            _refuse(place, f"{has} a lone surrogate, which UTF-8 cannot hold; decode the text properly")
        return text

    def _count(self, more: int) -> None:
        # On the way, because shared members can make a small value endless as text.
        self.bytes += more
        if self.bytes > MAX_BYTES:
            _refuse_oversize(self.where, self.bytes, "at least ")


def _leaf(value: datetime | date | Decimal | UUID | PurePath, place: _Place) -> str:
    if isinstance(value, datetime) and value.utcoffset() is None:
        _refuse(place, f"is {shown(value)}, which has no UTC offset; use datetime.now(UTC) or another aware datetime")
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal) and not value.is_finite():
        _refuse(place, f"is {shown(value)}, which JSON cannot hold; use None")
    return str(value)


def _integer(value: int, place: _Place) -> int:
    if not -_INT_BOUND < value < _INT_BOUND:
        _refuse(place, f"is an integer of more than {MAX_DIGITS} digits; pass it as text")
    return value


def _finite(value: float, place: _Place) -> float:
    if value - value != 0:
        _refuse(place, f"is {value}, which JSON cannot hold; use None")
    return value


def _advice(value: object) -> str:
    what = with_article(type_name(type(value)))
    if isinstance(value, bytes | bytearray | memoryview):
        return f"is {what}, which JSON cannot hold; pass text (for example base64) or a path"
    if isinstance(value, set | frozenset):
        return f"is {what}, which JSON cannot hold; pass a list"
    if hasattr(type(value), "tolist"):  # arrays and tensors
        return f"is {what}, which JSON cannot hold; pass its .item() or .tolist(), or store it and pass where it is"
    return f"is {what}, which JSON cannot hold; pass its parts, a dataclass or a pydantic model"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _refuse_oversize(where: str, size: int, bound: str) -> None:
    if size > MAX_BYTES:
        raise InvalidJob(
            f"{where} is {bound}{size} bytes of JSON and at most {MAX_BYTES} are kept; "
            f"store it in a file or table and pass where it is"
        )


def _refuse(place: _Place, fault: str) -> NoReturn:
    raise InvalidJob(f"{_rendered(place)} {fault}")


def _rendered(place: _Place) -> str:
    return place if isinstance(place, str) else below(_rendered(place[0]), place[1])


def counts_json(children: Children) -> JsonText:
    """The result of a container."""
    return JsonText(f'{{"done":{children.done},"failed":{children.failed},"cancelled":{children.cancelled}}}')
