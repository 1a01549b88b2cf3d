"""Which ended jobs may be retried or skipped, and which are meant with a container. Pure: rows are handed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqljobs.schema.columns import JsonText
from sqljobs.schema.errors import Refused
from sqljobs.schema.graph import NOT_NEEDED, closing_text
from sqljobs.schema.states import FINAL, State

BAD = (State.FAILED.value, State.CANCELLED.value)


@dataclass(frozen=True)
class Rule:
    """`done`: the verb in messages. `refuse`: raises `Refused` for a row that was named and may not be. `is_meant`:
    whether a row is, if a container around it was named. `is_reopened`: whether it may be named beside the job that it
    is opened again with. `with_members`: a job that is no container is meant with what its handler has put into it."""

    done: str
    refuse: Callable[[Any], None]
    is_meant: Callable[[Any], bool]
    is_reopened: Callable[[Any], bool]
    with_members: bool


def retry_rule() -> Rule:
    """Failed jobs, and those that an operator cancelled; what was cancelled for one of these may be named, too."""
    return Rule("retried", _refuse_retry, _ended_badly_by_itself, _was_closed_for_another, with_members=True)


def skip_rule(result: JsonText | None) -> Rule:
    """Failed jobs; `result`: what is to become theirs."""

    def refuse(row: Any) -> None:
        if row.state != State.FAILED.value and not _is_open_container(row):
            raise Refused(f"job {row.id} cannot be skipped: it is {row.state}")
        if row.container and result is not None:
            raise Refused(f"job {row.id} is a container, whose result comes of its members: leave the result out")

    return Rule("skipped", refuse, _has_failed, lambda _row: False, with_members=False)


def meant_in(container: Any, inside: Sequence[Any], rule: Rule) -> set[int]:
    """The jobs that are meant in a container, itself included; `inside`: rows of all its descendants, containers before
    their members. A container that is meant itself counts only where nothing in it is; of what a job that is none has
    enqueued in it in several tries, only the newest with a key.

    Raises `Refused` where nothing is, or where something in a job that is meant is still being cancelled."""
    leaves = {row.id for row in (container, *inside) if not row.container}
    meant: set[int] = set()
    holding: set[int | None] = set()
    keys: set[tuple[str, str]] = set()
    for row in reversed([container, *inside]):
        is_older = row.key is not None and row.parent_id in leaves and (row.type, row.key) in keys
        if rule.is_meant(row) and not is_older and not (row.container and row.id in holding):
            meant.add(row.id)
            keys |= {(row.type, row.key)} if row.key is not None else set()
        if row.id in holding or row.id in meant:
            holding.add(row.parent_id)
    if not meant:
        raise Refused(f"job {container.id} cannot be {rule.done}: nothing in it has failed")
    for row in inside if rule.with_members else ():
        if row.parent_id in meant and State(row.state) not in FINAL and row.cancel_requested_at is not None:
            raise Refused(f"job {row.id} in job {row.parent_id} is being cancelled: wait until it has ended")
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
    if row.reason == NOT_NEEDED:  # none of those can be retried, so it would not be needed again
        raise Refused(f"job {row.id} cannot be retried: {closing_text(NOT_NEEDED, None)}, so there is nothing to do")
    if row.reason == "dependency":
        raise Refused(
            f"job {row.id} was cancelled because of job {row.reason_job_id}:"
            f" retry {row.reason_job_id}, which reopens it"
        )
