"""Single JSON values turned into Python's scalar types. Strict: no guessing between text, numbers and booleans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, Flag
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NoReturn
from uuid import UUID

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import to_plain
from sqljobs.schema.renderings import one_line, shown
from sqljobs.schema.values import nearest

# How a class of an author's refuses a value; one that calls sys.exit() shall not end whoever asks.
REFUSALS = (Exception, SystemExit)
_CHOICES_SHOWN = 10


@dataclass(frozen=True)
class _Scalar:
    """How one family of types is read: from which exact JSON types, by which call, and what to write instead."""

    family: type
    taken: tuple[type, ...]
    read: Callable[[Any, Any], object]
    expected: str


def _aware(kind: Any, value: str) -> object:
    moment = kind.fromisoformat(value)
    if moment.utcoffset() is None:
        raise ValueError("it has no UTC offset")
    return moment


def _finite(kind: Any, value: str | int) -> object:
    number = kind(value)
    if not number.is_finite():
        raise ValueError("it is not finite")
    return number


# In this order: bool is an int, and datetime is a date.
_SCALARS = (
    _Scalar(bool, (bool,), lambda _kind, value: value, "true or false"),
    _Scalar(int, (int,), lambda kind, value: kind(value), "an integer"),
    _Scalar(float, (float, int), lambda kind, value: kind(value), "a number"),
    _Scalar(str, (str,), lambda kind, value: kind(value), "text"),
    _Scalar(datetime, (str,), _aware, "a time with UTC offset such as '2026-11-29T12:00:00+00:00'"),
    _Scalar(date, (str,), lambda kind, value: kind.fromisoformat(value), "a date such as '2026-11-29'"),
    _Scalar(Decimal, (str, int), _finite, "a decimal number as text such as '12.50', or an integer"),
    _Scalar(UUID, (str,), lambda kind, value: kind(value), "a UUID such as '12345678-1234-5678-1234-567812345678'"),
    _Scalar(PurePath, (str,), lambda kind, value: kind(value), "a path as text"),
)


def is_scalar(kind: type) -> bool:
    """Whether `convert_scalar` knows `kind`: a built-in scalar, one of its subclasses, or an Enum."""
    return _scalar_for(kind) is not None or issubclass(kind, Enum)


def convert_scalar(value: object, kind: Any, where: str) -> object:
    """The decoded JSON `value` as a `kind`. Raises `InvalidJob` naming `where`."""
    if issubclass(kind, Enum):
        return _member(value, kind, where)
    scalar = _scalar_for(kind)
    if scalar is None or type(value) not in scalar.taken:
        refuse(where, expected(kind), value)
    if kind is type(value):
        return value
    try:
        return scalar.read(kind, value)
    except REFUSALS as problem:
        raise InvalidJob(f"{where} must be {expected(kind)}, not {shown(value)} ({one_line(problem)})") from problem


def convert_choice(value: object, choices: tuple[object, ...], where: str) -> object:
    """The one of `choices` (of a `Literal`) that is stored as `value`, types compared strictly."""
    for choice in choices:
        if _text(to_plain(choice)) == _text(value):
            return choice
    return _refuse_choice(where, [to_plain(choice) for choice in choices], value)


def expected(kind: type) -> str:
    """What to write for a `kind`, for an error."""
    scalar = _scalar_for(kind)
    return kind.__name__ if scalar is None else scalar.expected


def refuse(where: str, expectation: str, value: object) -> NoReturn:
    """Raise the `InvalidJob` for a `value` that is not what `where` needs."""
    raise InvalidJob(f"{where} must be {expectation}, not {shown(value)}")


@lru_cache(maxsize=1024)
def _scalar_for(kind: type) -> _Scalar | None:
    return next((scalar for scalar in _SCALARS if issubclass(kind, scalar.family)), None)


@lru_cache(maxsize=1024)
def _members(kind: type[Enum]) -> dict[str, Enum]:
    """Members by the JSON text of their value; those whose value isn't JSON cannot be named."""
    members: dict[str, Enum] = {}
    for member in kind:
        try:
            members[_text(to_plain(member.value))] = member
        except InvalidJob:
            continue
    return members


def _member(value: object, kind: Any, where: str) -> object:
    members = _members(kind)
    if (text := _text(value)) in members:
        return members[text]
    if type(value) in (int, str):
        try:
            made = kind(value)  # combined flags, and what the class's own _missing_ takes
        except REFUSALS:  # any of them ends in the same error below
            return _refuse_choice(where, [json.loads(text) for text in members], value)
        # Flags may leave out the bits that are too many; with Python 3.11.2 all do.
        if not isinstance(made, Flag) or type(value) is not int or made.value == value:
            return made
    return _refuse_choice(where, [json.loads(text) for text in members], value)


def _refuse_choice(where: str, choices: Iterable[object], value: object) -> NoReturn:
    allowed = list(choices)
    some = ", ".join(shown(choice) for choice in allowed[:_CHOICES_SHOWN])
    more = f" or {len(allowed) - _CHOICES_SHOWN} more" if len(allowed) > _CHOICES_SHOWN else ""
    hint = nearest(value, [choice for choice in allowed if isinstance(choice, str)])
    raise InvalidJob(f"{where} must be one of {some}{more}, not {shown(value)}{hint}")


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
