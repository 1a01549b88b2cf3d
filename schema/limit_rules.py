"""What a limit may be, alone and beside those of its name that are stored. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqljobs.schema.admission import Kind
from sqljobs.schema.amounts import micros_of
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.renderings import shown
from sqljobs.schema.values import check_amount, check_name
from sqljobs.schema.windows import check_per, shown_per

KEYWORDS = ("resource", "rate", "budget", "per", "each", "group")
KINDS = tuple(kind.value for kind in Kind)


@dataclass(frozen=True)
class Limit:
    """One row. `group` is '' but for one group's own amount; `amount` in millionths; `each`: groups count for
    themselves."""

    name: str
    group: str
    kind: str
    amount: int
    per: str | None
    each: bool


def check_limit(
    name: object,
    *,
    resource: object = None,
    rate: object = None,
    budget: object = None,
    per: object = None,
    each: object = None,
    group: object = None,
) -> Limit:
    """A limit as it was asked for, as far as it can be told without what is stored. Raises `InvalidJob`."""
    checked = check_name("limit", name)
    given = {kind: value for kind, value in zip(KINDS, (resource, rate, budget), strict=True) if value is not None}
    if len(given) != 1:
        found = f"not {' and '.join(given)}" if given else "none is given"
        raise InvalidJob(f"limit {shown(checked)} needs one of {', '.join(KINDS)}: {found}")
    kind, value = next(iter(given.items()))
    if each not in (None, "group"):
        raise InvalidJob(f"each must be 'group', or left out, not {shown(each)}")
    if kind == Kind.RESOURCE and per is not None:
        raise InvalidJob(f"limit {shown(checked)} is a resource, which is held while jobs run: leave per out")
    if kind == Kind.RATE and per is None and group is None:
        raise _needs_per(checked)
    return Limit(
        checked,
        "" if group is None else check_name("group", group),
        kind,
        micros_of(check_amount(kind, value, zero=True)),
        None if per is None else check_per(per, calendar=kind == Kind.BUDGET),
        each == "group",
    )


def beside(asked: Limit, stored: Sequence[Limit]) -> Limit:
    """`asked` as it is to be stored beside the rows of its name. Raises `InvalidJob` where it does not fit."""
    for row in stored:
        refuse_other_kind(asked, row.kind)
    others = [row for row in stored if row.group != asked.group]
    if asked.group:
        return _of_group(asked, stored)
    if others and not asked.each:
        raise InvalidJob(
            f"group {shown(others[0].group)} has an amount of limit {shown(asked.name)} of its own: "
            "give each='group', too, or delete that amount first"
        )
    return asked


def refuse_other_kind(asked: Limit, kind: str) -> None:
    """A limit never changes its kind: what was counted of it would mean something else."""
    if asked.kind != kind:
        raise InvalidJob(f"limit {shown(asked.name)} is a {kind} limit: delete it first")


def _of_group(asked: Limit, stored: Sequence[Limit]) -> Limit:
    # The one for all groups says how it counts, else those that other groups have.
    leading = min(stored, key=lambda row: row.group) if stored else None
    if leading is None:
        if not asked.each:
            raise InvalidJob(f"limit {shown(asked.name)} has no counter for each group: give each='group', too")
        if asked.kind == Kind.RATE and asked.per is None:
            raise _needs_per(asked.name)
        return asked
    if not leading.each:
        raise InvalidJob(
            f"limit {shown(asked.name)} counts all groups together: set it with each='group' first, without a group"
        )
    alone = leading.group == asked.group and len(stored) == 1
    if asked.per not in (None, leading.per) and not alone:
        raise InvalidJob(
            f"the window of limit {shown(asked.name)} is {_per_text(leading.per)} for every group: "
            "change it without a group"
        )
    return replace(asked, each=True, per=asked.per or leading.per)


def _per_text(per: str | None) -> str:
    found = shown_per(per)
    return "all time" if found is None else found if isinstance(found, str) else f"{found}s"


def _needs_per(name: str) -> InvalidJob:
    return InvalidJob(f"limit {shown(name)} is a rate, which needs per: a duration such as 10s")
