"""SQL conditions in the one form that every database answers from an index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, and_, false, or_, true


def is_set(flag: ColumnElement[bool]) -> ColumnElement[bool]:
    """`flag = true`: with `IS true` no database uses the index of the flag."""
    return flag == true()


def is_unset(flag: ColumnElement[bool]) -> ColumnElement[bool]:
    """`flag = false`, for the same reason."""
    return flag == false()


def in_pairs(first: ColumnElement[Any], second: ColumnElement[Any], pairs: Iterable[tuple[Any, Any]]) -> Any:
    """`(first, second) IN pairs`, for at least one pair. In that form SQLite would walk the whole index."""
    grouped: dict[Any, list[Any]] = {}
    for one, two in pairs:
        grouped.setdefault(one, []).append(two)
    return or_(*(and_(first == one, second.in_(twos)) for one, twos in grouped.items()))
