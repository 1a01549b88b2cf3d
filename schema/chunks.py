"""How many rows one statement names: long lists of ids are sent in portions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

CHUNK = 500


def chunks(items: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """`items` in slices of at most `size`, in their order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
