"""Decoded JSON turned into what an annotation asks for. Strict: refuses rather than guesses; knows no handlers."""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import inspect
import itertools
import json
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, Union

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import is_model
from sqljobs.schema.renderings import below, one_line, shown, type_name
from sqljobs.schema.values import nearest
from sqljobs.worker_runtime.hints import class_hints, described, unwrapped
from sqljobs.worker_runtime.scalars import REFUSALS, convert_choice, convert_scalar, is_scalar, refuse

JSON_SCALARS = frozenset({bool, int, float, str})
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_COLLECTIONS: dict[object, Callable[..., object]] = {
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)


def convert(value: object, annotation: Any, where: str) -> object:
    """The decoded JSON `value` as `annotation` asks; as it is without one.

    Raises `InvalidJob` naming the place (`where` and what is below it), what is expected and what was found; also
    for an annotation that nothing stored as JSON can meet."""
    if type(value) is annotation and annotation in JSON_SCALARS:
        return value  # the common case, and a list may have a million of them
    annotation = unwrapped(annotation)
    if annotation is Any or annotation is object or annotation is inspect.Parameter.empty:
        return value
    if annotation is None or annotation is types.NoneType:
        return value if value is None else refuse(where, "None", value)
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Union or origin is types.UnionType:
        return _union(value, arguments, where)
    if origin is Literal:
        return convert_choice(value, arguments, where)
    kind = origin or annotation
    if not isinstance(kind, type):
        return unsupported(annotation, where)
    if is_scalar(kind):
        return convert_scalar(value, kind, where)
    if kind in _LISTS or kind in _COLLECTIONS:
        return _items(value, kind, arguments, where)
    if kind in _MAPPINGS:
        return _mapping(value, arguments, where)
    return _record(value, kind, where)


def _union(value: object, members: tuple[Any, ...], where: str) -> object:
    """The member that is the value's own JSON type; else the first, in the order written, that takes it."""
    candidates = [unwrapped(member) for member in members]
    if type(value) in candidates:
        return value
    faults = []
    for candidate in candidates:
        try:
            return convert(value, candidate, where)
        except InvalidJob as fault:
            faults.append((candidate, fault))
    # With one real member its own error says more, down to the place inside.
    real = [fault for candidate, fault in faults if candidate is not types.NoneType]
    if len(real) == 1:
        raise real[0]
    return refuse(where, " or ".join(described(candidate) for candidate in candidates), value)


def _items(value: object, kind: type, arguments: tuple[Any, ...], where: str) -> object:
    if not isinstance(value, list):
        return refuse(where, "a list", value)
    annotations: Iterable[Any] = itertools.repeat(unwrapped(arguments[0]) if arguments else Any)
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise InvalidJob(f"{where} must be a list of {len(arguments)} items, not of {len(value)}")
        annotations = arguments
    items = [
        item if type(item) is annotation else convert(item, annotation, below(where, index))
        for index, (item, annotation) in enumerate(zip(value, annotations, strict=False))
    ]
    return items if kind in _LISTS else _built(_COLLECTIONS[kind], where, [items])


def _mapping(value: object, arguments: tuple[Any, ...], where: str) -> dict[Any, object]:
    if not isinstance(value, dict):
        return refuse(where, "an object", value)
    key_annotation, annotation = arguments or (Any, Any)
    return {
        convert(key, key_annotation, f"{where}: key {shown(key)}"): convert(item, annotation, below(where, key))
        for key, item in value.items()
    }


def _record(value: object, kind: Any, where: str) -> object:
    """A class with named fields: pydantic model, dataclass, TypedDict or NamedTuple."""
    if is_model(kind):
        return _built(_validate, where, [kind, value])
    if hasattr(kind, "__dataclass_fields__"):
        return _built(kind, where, [], _dataclass_members(value, kind, where))
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        return _members(value, kind, list(class_hints(kind)), _required_keys(kind), where)
    if issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
        return _named_tuple(value, kind, where)
    return unsupported(kind, where)


def _dataclass_members(value: object, kind: Any, where: str) -> dict[str, object]:
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if isinstance(value, dict):
        # What the class computes for itself is stored, too, and computed anew.
        value = {name: item for name, item in value.items() if name not in fields or fields[name].init}
    given = [field for field in fields.values() if field.init]
    missing = dataclasses.MISSING
    needed = [field.name for field in given if field.default is missing and field.default_factory is missing]
    return _members(value, kind, [field.name for field in given], needed, where)


def _members(value: object, kind: Any, names: list[str], needed: list[str], where: str) -> dict[str, object]:
    """What `value` gives of the fields `names` of `kind`, converted; the needed ones must be there, no others may."""
    if not isinstance(value, dict):
        return refuse(where, f"an object with the fields of {kind.__name__}", value)
    for name in value:
        if name not in names:
            raise InvalidJob(
                f"{where} has the field {shown(name)}, which {kind.__name__} lacks{nearest(name, names)}; "
                f"it takes {', '.join(names) or 'none'}"
            )
    for name in needed:
        if name not in value:
            raise InvalidJob(f"{where} lacks the field {name!r}, which {kind.__name__} needs")
    hints = class_hints(kind)
    return {name: convert(item, hints[name], below(where, name)) for name, item in value.items()}


def _required_keys(kind: Any) -> list[str]:
    # The class's own set is wrong where annotations are text; the resolved ones still carry NotRequired.
    marks = {name: getattr(typing.get_origin(hint), "_name", None) for name, hint in class_hints(kind).items()}
    return [
        name
        for name, mark in marks.items()
        if mark == "Required" or (mark != "NotRequired" and name in kind.__required_keys__)
    ]


def _named_tuple(value: object, kind: Any, where: str) -> object:
    names = kind._fields
    if not isinstance(value, list) or not len(names) - len(kind._field_defaults) <= len(value) <= len(names):
        return refuse(where, f"a list with the fields of {kind.__name__} ({', '.join(names)})", value)
    hints = class_hints(kind)
    given = zip(names, value, strict=False)  # trailing ones may have defaults
    return _built(kind, where, [convert(item, hints.get(name, Any), below(where, name)) for name, item in given])


def _validate(model: Any, value: object) -> object:
    read_json = getattr(model, "model_validate_json", None)
    if read_json is None:
        return model.model_validate(value)
    # As JSON, so that a strict model takes times and UUIDs as text; by name, because that is how models are dumped.
    by_name = "by_name" in inspect.signature(read_json).parameters
    return read_json(json.dumps(value), **({"by_name": True, "by_alias": True} if by_name else {}))


def _built(
    build: Callable[..., object], where: str, items: list[Any], named: dict[str, object] | None = None
) -> object:
    """What `build` makes of the converted members, its own refusals turned into `InvalidJob`."""
    try:
        return build(*items, **(named or {}))
    except REFUSALS as problem:
        raise InvalidJob(f"{where} was refused: {type_name(type(problem))}: {one_line(problem)}") from problem


def unsupported(annotation: object, where: str) -> NoReturn:
    """Raise the `InvalidJob` for an annotation that nothing stored as JSON can meet."""
    raise InvalidJob(
        f"{where} is annotated {described(annotation)}, which cannot be made from JSON; "
        f"use a JSON type, a dataclass or a pydantic model"
    )
