"""What an annotation says: text evaluated, wrappers taken off, and how it reads in an error. Converts nothing."""

from __future__ import annotations

import types
import typing
from functools import lru_cache
from typing import Annotated, Any, NewType

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.renderings import one_line, shown
from sqljobs.worker_runtime.scalars import expected, is_scalar

_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final")
_SHOWN_LENGTH = 100


def resolved(annotation: object, namespace: dict[str, Any], owner: str, name: str) -> object:
    """`annotation` of `name` in `owner`, its text evaluated in `namespace`. Raises `InvalidJob` naming both."""
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    try:
        return typing.get_type_hints(holder, globalns=namespace, include_extras=True)[name]
    except Exception as problem:
        raise _unresolvable(owner, f"the annotation {shown(annotation)} of {name!r}", problem) from problem


@lru_cache(maxsize=1024)
def class_hints(kind: type) -> dict[str, object]:
    """The annotations of the fields of `kind`, evaluated. Raises `InvalidJob` naming the class."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception as problem:
        raise _unresolvable(kind.__name__, "an annotation of its fields", problem) from problem


def _unresolvable(owner: str, what: str, problem: Exception) -> InvalidJob:
    return InvalidJob(
        f"{owner}: {what} cannot be resolved ({one_line(problem)}); "
        f"define or import it at the top level of its module, outside `if TYPE_CHECKING`"
    )


def unwrapped(annotation: Any) -> Any:
    """The annotation below Annotated, NewType, `type` aliases and the qualifiers of fields."""
    while type(annotation) is not type:
        origin = typing.get_origin(annotation)
        if origin is Annotated or getattr(origin, "_name", None) in _QUALIFIERS:
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":  # typing's since 3.12, and its backport
            annotation = annotation.__value__
        else:
            break
    return annotation


def described(annotation: Any) -> str:
    """`annotation` in words or as written, for an error."""
    if annotation is types.NoneType:
        return "None"
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return expected(annotation) if is_scalar(annotation) else annotation.__name__
    return one_line(annotation, limit_bytes=_SHOWN_LENGTH).replace("typing.", "")
