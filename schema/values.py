"""Checks of option values at the door, used at enqueue and for limits. Each raises `InvalidJob` in one line. No SQL."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from sqljobs.schema.durations import MAX_SIZE, parse_duration, parse_size
from sqljobs.schema.errors import InvalidJob, UnknownJob
from sqljobs.schema.renderings import shown

NAME_LENGTH = 200
# A 32-bit column holds it with room for the attempts that max_attempts is given back.
MAX_COUNT = 1_000_000_000
MIN_PRIORITY, MAX_PRIORITY = -1000, 1000
MIN_TIMEOUT, MAX_TIMEOUT = 0.001, 3650 * 86_400.0
MAX_AMOUNT = Decimal(10**12)
MIN_AMOUNT = Decimal("0.000001")
ON_CONFLICT = ("return", "raise")
KEY_FOR = ("open", "ever")

_MICRO = 10**6
_AMOUNT_LENGTH = 64


def check_name(what: str, value: object) -> str:
    """`value` as an identifying string: 1-200 characters, no control characters, no white space at either end."""
    if not isinstance(value, str):
        raise InvalidJob(f"{what} must be text of 1 to {NAME_LENGTH} characters, not {shown(value)}")
    name = str.__str__(value)
    fault = _fault_of_name(name)
    if fault:
        raise InvalidJob(
            f"{what} {shown(name)} {fault}; write 1 to {NAME_LENGTH} characters, no control characters, "
            f"no space at either end"
        )
    return name


def _fault_of_name(name: str) -> str:
    if not name:
        return "is empty"
    if len(name) > NAME_LENGTH:
        return f"has {len(name)} characters"
    for character in name:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs"):
            kind = "control character" if category == "Cc" else "lone surrogate"
            return f"has a {kind} (U+{ord(character):04X})"
    return "" if name == name.strip() else "has a space at its start or end"


def check_count(what: str, value: object) -> int:
    """`value` as `weight` or `max_attempts`: a whole number from 1 to 1,000,000,000."""
    return _whole_number(what, value, 1, MAX_COUNT)


def check_priority(value: object, *, what: str = "priority") -> int:
    """`value` as a priority: a whole number from -1000 to 1000."""
    return _whole_number(what, value, MIN_PRIORITY, MAX_PRIORITY)


def _whole_number(what: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidJob(f"{what} must be a whole number from {low} to {high}, not {shown(value)}")
    return int(value)


def check_timeout(value: object, *, what: str = "timeout") -> float:
    """`value` as seconds that an attempt may take: 0 (no limit), or a duration from 1 ms to 3650 days."""
    seconds = parse_duration(value, what=what)
    if seconds and not MIN_TIMEOUT <= seconds <= MAX_TIMEOUT:
        raise InvalidJob(f"{what} must be 0 (none) or from 1ms to 3650d, not {shown(value)}")
    return seconds


def check_memory(value: object, *, what: str = "memory") -> int:
    """`value` as bytes that a job's process tree may hold: from 1 to 2**63 - 1."""
    size = parse_size(value, what=what)
    if not 1 <= size <= MAX_SIZE:
        raise InvalidJob(f"{what} must be above 0, not {shown(value)}; write for example 2GiB or leave it out")
    return size


def check_choice(what: str, value: object, choices: tuple[str, ...]) -> str:
    """`value` as one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise InvalidJob(f"{what} must be {allowed}, not {shown(value)}{nearest(value, choices)}")
    return str.__str__(value)


def check_on_conflict(value: object) -> str:
    """`value` as `on_conflict`: "return" or "raise"."""
    return check_choice("on_conflict", value, ON_CONFLICT)


def check_key_for(value: object) -> str:
    """`value` as `key_for`: "open" (the default) or "ever"."""
    return check_choice("key_for", value, KEY_FOR)


def check_uses(value: object, *, what: str = "uses") -> dict[str, Decimal]:
    """`value` as amounts by name of limit or device, in the order given."""
    if not isinstance(value, Mapping):
        raise InvalidJob(f"{what} must map names to amounts, as in {{'gpu': 1}}, not {shown(value)}")
    amounts: dict[str, Decimal] = {}
    for given, amount in value.items():
        name = check_name(f"{what}: name", given)
        amounts[name] = check_amount(f"{what}[{name!r}]", amount)
    return amounts


def check_amount(what: str, value: object, *, zero: bool = False) -> Decimal:
    """`value` (int, float, Decimal or text) as an exact amount: above 0, or from 0 with `zero` (a limit may be closed),
    at most 1,000,000,000,000, at most six decimal places. A float counts as the decimal that it prints as."""
    amount = _decimal(value)
    if amount is None or not amount.is_finite() or not (MIN_AMOUNT <= amount <= MAX_AMOUNT or (zero and amount == 0)):
        low = "0" if zero else "0.000001"
        raise InvalidJob(f"{what} must be a number from {low} to {MAX_AMOUNT}, not {shown(value)}")
    top, bottom = amount.as_integer_ratio()
    micros, rest = divmod(top * _MICRO, bottom)
    if rest:
        raise InvalidJob(f"{what} must have at most six decimal places, not {shown(value)}")
    # From digits: arithmetic would round by the caller's decimal context.
    return Decimal(f"{micros // _MICRO}.{micros % _MICRO:06d}".rstrip("0").rstrip("."))


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and len(value) > _AMOUNT_LENGTH:
        return None
    try:
        return Decimal(repr(float(value)) if isinstance(value, float) else value)
    except InvalidOperation:
        return None


def nearest(word: object, choices: Iterable[str]) -> str:
    """ " (did you mean 'x'?)" for the choice that looks most like `word`, or nothing."""
    if not isinstance(word, str) or len(word) > NAME_LENGTH:
        return ""
    found = difflib.get_close_matches(word, list(choices), n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def check_ids(ids: Sequence[object]) -> list[int]:
    """`ids` as job ids. Raises `InvalidJob` for what is no whole number, `UnknownJob` for one that no job can have."""
    checked = []
    for job_id in ids:
        if isinstance(job_id, bool) or not isinstance(job_id, int):
            raise InvalidJob(f"a job id is a whole number, not {shown(job_id)}: pass ids one by one")
        if not 0 < job_id < 2**63:
            raise UnknownJob(f"there is no job {job_id}")
        checked.append(int(job_id))
    return checked
