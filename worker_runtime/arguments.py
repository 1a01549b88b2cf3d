"""Stored arguments fitted to a handler's signature, and a call's arguments named for storage. Runs no handler."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from inspect import Parameter
from typing import Any

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.renderings import below, one_line, shown
from sqljobs.schema.values import nearest
from sqljobs.worker_runtime.annotations import convert
from sqljobs.worker_runtime.hints import described, resolved

Function = Callable[..., object]


@dataclass(frozen=True)
class BoundCall:
    """A handler's converted arguments, ready for `fn(*positional, **keywords)`."""

    positional: tuple[object, ...]
    keywords: dict[str, object]


def check_signature(fn: Function) -> None:
    """Raise `InvalidJob` where the arguments of `fn` cannot be stored by name (`*args`, or no signature to read)."""
    _parameters(fn)


def bind_arguments(fn: Function, args: object) -> BoundCall:
    """The decoded JSON object `args` (or None, for no arguments) converted to what the annotations of `fn` ask for.

    Raises `InvalidJob` naming the argument that is missing, unknown or cannot be converted, and what was expected."""
    parameters, extra = _parameters(fn)
    given = {} if args is None else args
    if not isinstance(given, Mapping):
        raise InvalidJob(f"{_name(fn)}: args must be an object of arguments by name, not {shown(args)}")
    positional: list[object] = []
    keywords: dict[str, object] = {}
    for name, parameter in parameters.items():
        if name in given:
            value = _converted(fn, parameter, name, given[name])
        elif parameter.default is Parameter.empty:
            raise InvalidJob(f"{_name(fn)}: argument {name!r} is missing{_wanted(fn, parameter)}")
        else:
            value = parameter.default
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            positional.append(value)
        elif name in given:
            keywords[name] = value
    for name in given:
        if name not in parameters:
            if extra is None:
                raise _unknown(fn, name)
            keywords[name] = _converted(fn, extra, name, given[name])
    return BoundCall(tuple(positional), keywords)


def named_arguments(fn: Function, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
    """The arguments of the call `fn(*args, **kwargs)` by name, as they are stored; defaults are not filled in.

    Raises `InvalidJob` where `fn` cannot be called so."""
    parameters, extra = _parameters(fn)
    for name in kwargs:
        if extra is None and name not in parameters:
            raise _unknown(fn, name)
    try:
        named = dict(_signature(fn).bind(*args, **kwargs).arguments)
    except TypeError as problem:
        raise InvalidJob(f"{_name(fn)}: {one_line(problem)}") from None
    extras = named.pop(extra.name, {}) if extra is not None else {}
    for name in extras:
        if name in named:
            raise InvalidJob(f"{_name(fn)}: argument {name!r} is given twice, by position and by name")
    return {**named, **extras}


def argument_from_text(fn: Function, name: str, text: str) -> object:
    """The JSON value that the command line's `text` means as argument `name` of `fn`.

    What the annotation takes, tried as JSON and then as the text itself; without annotation JSON if it parses. Raises
    `InvalidJob` for an unknown name and for text that the annotation doesn't take either way."""
    parameters, extra = _parameters(fn)
    parameter = parameters.get(name, extra)
    if parameter is None:
        raise _unknown(fn, name)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = text
    annotated = _annotation(fn, parameter) not in (Parameter.empty, Any, object)
    # Quotes are part of an annotated text: only numbers, lists and the like are read as JSON before it.
    readings = [text, parsed] if annotated and isinstance(parsed, str) else [parsed, text]
    faults: list[InvalidJob] = []
    for reading in readings:
        try:
            _converted(fn, parameter, name, reading)
        except InvalidJob as fault:
            faults.append(fault)
        else:
            return reading
    raise faults[0]


def _converted(fn: Function, parameter: Parameter, name: str, value: object) -> object:
    if value is None and parameter.default is None:
        return None  # `x: int = None` says that None is fine, whatever the annotation
    where = below(f"{_name(fn)}: args", name)
    try:
        return convert(value, _annotation(fn, parameter), where)
    except RecursionError:
        raise InvalidJob(f"{where} is nested too deep") from None


def _unknown(fn: Function, name: object) -> InvalidJob:
    parameters, _ = _parameters(fn)
    takes = ", ".join(parameters) or "none"
    return InvalidJob(f"{_name(fn)}: no argument {shown(name)}{nearest(name, parameters)}; it takes {takes}")


def _wanted(fn: Function, parameter: Parameter) -> str:
    annotation = _annotation(fn, parameter)
    return "" if annotation is Parameter.empty else f"; it must be {described(annotation)}"


def _name(fn: Function) -> str:
    return one_line(getattr(fn, "__name__", type(fn).__name__))


@lru_cache(maxsize=1024)
def _signature(fn: Function) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError, NameError) as problem:
        raise InvalidJob(
            f"{_name(fn)}: its arguments cannot be read ({one_line(problem)}); use a plain function"
        ) from None


@lru_cache(maxsize=1024)
def _parameters(fn: Function) -> tuple[dict[str, Parameter], Parameter | None]:
    """The parameters that have a name of their own, and the one that takes any others."""
    named: dict[str, Parameter] = {}
    extra: Parameter | None = None
    for name, parameter in _signature(fn).parameters.items():
        if parameter.kind is Parameter.VAR_POSITIONAL:
            raise InvalidJob(
                f"{_name(fn)}: *{name} has no names to store arguments under; "
                f"take a list instead, as in def {_name(fn)}({name}: list)"
            )
        if parameter.kind is Parameter.VAR_KEYWORD:
            extra = parameter
        else:
            named[name] = parameter
    return named, extra


@lru_cache(maxsize=4096)
def _resolved(fn: Function, name: str) -> object:
    inner = inspect.unwrap(fn.func if isinstance(fn, functools.partial) else fn)
    annotation = _signature(fn).parameters[name].annotation
    return resolved(annotation, getattr(inner, "__globals__", {}), _name(fn), name)


def _annotation(fn: Function, parameter: Parameter) -> object:
    return parameter.annotation if parameter.annotation is Parameter.empty else _resolved(fn, parameter.name)
