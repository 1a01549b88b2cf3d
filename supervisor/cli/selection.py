"""SELECTION on the command line: ids, or filters; read into the ids of the jobs that are meant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import click

from sqljobs.schema import values
from sqljobs.schema.chunks import chunks
from sqljobs.schema.durations import EARLIEST, MAX_AFTER, After, moment_at, parse_duration, parse_moment
from sqljobs.schema.errors import InvalidJob, UnknownJob
from sqljobs.schema.jobs_read import Selection, read_states, select_ids
from sqljobs.schema.outcomes import Cause
from sqljobs.schema.states import State
from sqljobs.schema.transactions import Transaction

HIGHEST_ID = 2**63 - 1


def job_id(text: str) -> int:
    """`text` as a job's id; for click, which turns the ValueError of anything else into its usage error.

    Raises `UnknownJob` for a number that no database could give."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    if len(text) > 19 or int(text) > HIGHEST_ID:
        raise UnknownJob(f"there is no job {text[:40]}")
    return int(text)


@dataclass(frozen=True)
class Asked:
    """A SELECTION as it was given; `since` is read against the database's clock, later."""

    ids: tuple[int, ...]
    filters: Selection
    since: str | None

    @property
    def is_filter(self) -> bool:
        """Whether anything but ids was given."""
        return self.since is not None or self.filters != Selection()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was given."""
        return not self.ids and not self.is_filter

    def with_default_states(self, states: Sequence[State]) -> Asked:
        """The same, but filters that name no state mean only jobs in these."""
        if not self.is_filter or self.filters.states:
            return self
        return replace(self, filters=replace(self.filters, states=tuple(states)))

    def matching(self, tx: Transaction, limit: int | None = None) -> list[int]:
        """Ids of the jobs meant, newest first. Raises `UnknownJob` for an id that is not there."""
        selection = replace(self.filters, since=_since(self.since, tx))
        if not self.ids:
            return select_ids(tx, selection, limit)
        ids = sorted(set(self.ids), reverse=True)
        read_states(tx, ids)
        if self.is_filter:
            portions = [replace(selection, ids=list(chunk)) for chunk in chunks(ids)]
            ids = [found for portion in portions for found in select_ids(tx, portion)]
        return ids[:limit]


def _since(text: str | None, tx: Transaction) -> Any:
    if text is None:
        return None
    try:
        seconds = parse_duration(text, what="--since")
    except InvalidJob:
        moment = parse_moment(text, what="--since")
        return moment_at(After(0.0) if isinstance(moment, After) else moment, tx.now)
    earliest = EARLIEST if seconds > MAX_AFTER else tx.now - timedelta(seconds=seconds)
    return max(EARLIEST, earliest)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments and options of SELECTION; the command gets them as `asked`."""

    @functools.wraps(command)
    def with_selection(*args: Any, **given: Any) -> Any:
        names = ("state", "type_", "group", "parent", "key", "cause")
        states, types, groups, parent, key, cause = (given.pop(name) for name in names)
        for what, listed in (("--type", types), ("--group", groups), ("--key", [] if key is None else [key])):
            for name in listed:
                values.check_name(what, name)
        filters = Selection(states=states, types=types, groups=groups, parent=parent, key=key, cause=cause)
        return command(*args, asked=Asked(given.pop("ids"), filters, given.pop("since")), **given)

    wrapped: Callable[..., Any] = with_selection
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


_OPTIONS = (
    click.argument("ids", type=job_id, nargs=-1, metavar="[ID]..."),
    click.option("--state", type=click.Choice([state.value for state in State]), multiple=True, help="In this state."),
    click.option("--type", "type_", multiple=True, metavar="TYPE", help="Of this type."),
    click.option("--group", multiple=True, metavar="GROUP", help="Of this group."),
    click.option("--parent", type=job_id, metavar="ID", help="In this container."),
    click.option("--key", metavar="KEY", help="With this key."),
    click.option("--cause", type=click.Choice([cause.value for cause in Cause]), help="Whose last attempt ended so."),
    click.option("--since", metavar="WHEN", help="Changed in the last 90s, 2h, 7d, or since a time with offset."),
)
