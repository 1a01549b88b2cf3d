"""Exact amounts of limits: whole millionths inside, decimals of at most six places outside. Pure.

Whole numbers, because arithmetic of decimals rounds by a context that a handler may have changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from decimal import Decimal

MICRO = 10**6
# Sums beyond this would not fit a 64-bit integer, which is what SQLite has.
MAX_TOTAL = 9 * 10**18


def micros_of(amount: Decimal) -> int:
    """`amount` in millionths; it has at most six decimal places."""
    top, bottom = amount.as_integer_ratio()
    return top * MICRO // bottom


def all_micros(amounts: Mapping[str, Decimal] | None) -> dict[str, int]:
    """Amounts by name in millionths."""
    return {name: micros_of(amount) for name, amount in (amounts or {}).items()}


def decimal_of(micros: int) -> Decimal:
    """So many millionths as a decimal without trailing zeros."""
    return Decimal(text_of(micros))


def text_of(micros: int) -> str:
    """So many millionths as people write them: `3`, `0.25`, `-1.5`."""
    whole, rest = divmod(abs(micros), MICRO)
    shown = f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
    return f"-{shown}" if micros < 0 else shown


def number_of(micros: int) -> int | float:
    """So many millionths as a JSON number."""
    return micros // MICRO if micros % MICRO == 0 else float(text_of(micros))


def numbers_of(amounts: Mapping[str, Decimal] | None) -> dict[str, int | float] | None:
    """Amounts by name as JSON numbers."""
    return None if amounts is None else {name: number_of(micros_of(amount)) for name, amount in amounts.items()}


def total_of(listed: Iterable[Mapping[str, Decimal] | None]) -> dict[str, Decimal] | None:
    """The sum of these by name, exactly; None where there are none."""
    totals: dict[str, int] = {}
    for amounts in listed:
        for name, amount in (amounts or {}).items():
            totals[name] = totals.get(name, 0) + micros_of(amount)
    return {name: decimal_of(micros) for name, micros in totals.items()} or None


def uses_key(uses: Mapping[str, Decimal] | None) -> str:
    """What `uses` comes down to in an index: '' for nothing of its own, else 16 characters, alike for like amounts."""
    if uses is None:
        return ""
    told = "\n".join(f"{name}\t{micros_of(uses[name])}" for name in sorted(uses))
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
