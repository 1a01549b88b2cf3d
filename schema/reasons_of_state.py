"""What is to say of a job that ended, that runs, or that is a container with open members. Pure: no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqljobs.schema.graph import NOT_NEEDED
from sqljobs.schema.reason import BLOCKERS_SHOWN, Reason, many, moment, numbered, said
from sqljobs.schema.states import State


@dataclass(frozen=True)
class Culprit:
    """The job whose end closed this one, as far as it is still there."""

    state: str
    reason: str | None
    text: str | None


def ended(row: Any, culprit: Culprit | None) -> Reason:
    """How a job ended; `row`: its columns. `culprit`: the job of `reason_job_id`, None where that is no more."""
    words = {State.DONE: _done, State.FAILED: _failed}.get(State(row.state))
    text = words(row) if words is not None else _cancelled(row, culprit)
    return Reason("ended", text, row.reason_job_id)


def _done(row: Any) -> str:
    return f"it is done since {moment(row.ended_at)}" + (f": {said(row.reason_text)}" if row.reason_text else "")


def _failed(row: Any) -> str:
    if row.reason == "children":
        text = f"it failed at {moment(row.ended_at)}, since {said(row.reason_text)}"
        return f"{text}: `sqljobs retry {row.id}` tries those again that failed"
    tries = f" in attempt {row.attempt} of at most {row.max_attempts}" if row.attempt else ""
    why = f": {said(row.reason_text)}" if row.reason_text else ""
    return f"it failed at {moment(row.ended_at)}{tries}, {row.reason}{why}; `sqljobs retry {row.id}` tries it again"


def _cancelled(row: Any, culprit: Culprit | None) -> str:
    text = f"it was cancelled at {moment(row.ended_at)}"
    if row.reason == NOT_NEEDED:
        return f"{text}, not needed: {said(row.reason_text)}"
    if row.reason != "dependency":
        why = f": {said(row.reason_text)}" if row.reason_text else ""
        return f"{text}{why}; `sqljobs retry {row.id}` opens it again"
    if culprit is None:
        return f"{text}, since job {row.reason_job_id} did not end well, which is pruned since: enqueue both anew"
    how = f": {said(culprit.text)}" if culprit.text else ""
    how = f"{culprit.reason}{how}" if culprit.reason not in (None, "cancelled", "children") else how.removeprefix(": ")
    what = {"failed": "failed", "cancelled": "was cancelled"}.get(culprit.state)
    if what is None:  # it was opened again, and this one stayed closed for a reason of its own
        return f"{text}, since job {row.reason_job_id} had not ended well, which is {culprit.state} now"
    return (
        f"{text}, since job {row.reason_job_id} {what}{f' ({how})' if how else ''}:"
        f" `sqljobs retry {row.reason_job_id}` opens both again"
    )


def running(row: Any, attempt: Any, now: datetime) -> Reason:
    """A job that a supervisor has, from its claim on; `attempt`: the columns of the one in flight."""
    if row.state == State.LEASED.value:
        text = (
            f"supervisor {said(attempt.supervisor)} claimed it at {moment(attempt.claimed_at)} and starts its process"
        )
    else:
        text = f"it runs since {moment(row.started_at)} on supervisor {said(attempt.supervisor)}"
    text += f" (attempt {row.attempt} of at most {row.max_attempts})"
    if row.cancel_requested_at is not None:
        text += f"; its cancel was asked for at {moment(row.cancel_requested_at)}, and it can only end as cancelled"
    if row.lease_expires <= now:
        text += f"; its lease ran out at {moment(row.lease_expires)}, and another supervisor will take it back"
    return Reason("running", text)


def container(row: Any, members: Sequence[tuple[int, str, str]], first: Sequence[Reason]) -> Reason:
    """A container that has begun. `members`: (id, type, state) of the first of its open ones; `first`: what keeps the
    first of them."""
    ids = tuple(member for member, _, _ in members[:BLOCKERS_SHOWN])
    count = max(len(members), row.open_children)
    if not count:
        text = (
            "it is a container that waits for its first member"
            if row.awaits_child
            else "it is a container, about to end"
        )
        return Reason("container", text)
    names = [f"{member} ({said(kind)}, {state})" for member, kind, state in members]
    text = f"it is a container with {many(count, 'open member')}: {numbered(names, count)}"
    if row.cancel_requested_at is not None:
        text += "; its cancel was asked for"
    elif first:
        text += f"; of job {ids[0]}, the first: {first[0].text}"
    return Reason("container", text, ids[0], blockers=ids)
