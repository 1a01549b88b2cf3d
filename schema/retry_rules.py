"""Which ended jobs may be retried or skipped, and which are meant with a container. Pure: rows are handed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqljobs.schema.columns import JsonText
from sqljobs.schema.errors import Refused
from sqljobs.schema.states import FINAL, State

BAD = (State.FAILED.value, State.CANCELLED.value)


@dataclass(frozen=True)
class Rule:
    """`done`: the verb in messages. `refuse`: raises `Refused` for a row that was named and may not be. `is_meant`:
    whether a row is, if a container around it was named. `is_reopened`: whether it may be named beside the job that it
    is opened again with."""

    done: str
    refuse: Callable[[Any], None]
    is_meant: Callable[[Any], bool]
    is_reopened: Callable[[Any], bool]


def retry_rule() -> Rule:
    """Failed jobs, and those that an operator cancelled; what was cancelled for one of these may be named, too."""
    return Rule("retried", _refuse_retry, _ended_badly_by_itself, _was_closed_for_another)


def skip_rule(result: JsonText | None) -> Rule:
    """Failed jobs; `result`: what is to become theirs."""

    def refuse(row: Any) -> None:
        if row.state != State.FAILED.value and not _is_open_container(row):
            raise Refused(f"job {row.id} cannot be skipped: it is {row.state}")
        if row.container and result is not None:
            raise Refused(f"job {row.id} is a container, whose result comes of its members: leave the result out")

    return Rule("skipped", refuse, _has_failed, lambda _row: False)


def meant_in(container: Any, inside: Sequence[Any], rule: Rule) -> set[int]:
    """The jobs that are meant in a container, itself included; `inside`: rows of all its descendants, containers before
    their members. A container that is meant itself counts only where nothing in it is.

    Raises `Refused` where nothing is."""
    meant: set[int] = set()
    holding: set[int | None] = set()
    for row in reversed([container, *inside]):
        if row.id not in holding and rule.is_meant(row):
            meant.add(row.id)
        if row.id in holding or row.id in meant:
            holding.add(row.parent_id)
    if not meant:
        raise Refused(f"job {container.id} cannot be {rule.done}: nothing in it has failed")
    return meant


def _ended_badly_by_itself(row: Any) -> bool:
    return row.reason == "cancelled" or _has_failed(row)


def _has_failed(row: Any) -> bool:
    return row.state == State.FAILED.value and not row.container


def _was_closed_for_another(row: Any) -> bool:
    return bool(row.state == State.CANCELLED.value and row.reason == "dependency")


def _is_open_container(row: Any) -> bool:
    return bool(row.container) and State(row.state) not in FINAL


def _refuse_retry(row: Any) -> None:
    if _is_open_container(row):
        return  # what is in it decides
    if row.state not in BAD:
        raise Refused(f"job {row.id} cannot be retried: it is {row.state}")
    if row.reason == "dependency":
        raise Refused(
            f"job {row.id} was cancelled because of job {row.reason_job_id}:"
            f" retry {row.reason_job_id}, which reopens it"
        )
