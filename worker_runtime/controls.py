"""What an operator's code calls to steer the queue: holds, limits, weights; in the transaction of a Session or
Connection of its own."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from sqljobs.schema import group_settings, holds, limit_settings
from sqljobs.schema.callers import Caller, callers_transaction

Amount = int | float | Decimal | str
Duration = float | str | timedelta
Moment = datetime | Duration


def hold(
    session: Caller,
    /,
    kind: str,
    name: str | int | None = None,
    *,
    reason: str | None = None,
    until: Moment | None = None,
) -> None:
    """Keep jobs from being claimed, from the caller's commit on; running ones are not touched.

    `kind`: `job` (`name`: its id), `type`, `group`, `limit`, `supervisor`, or `all` (no name). A held container holds
    all that is in it. `until`: an aware datetime, ISO text with offset, or a duration from now; None: until released.
    What is held already gets this reason and end. Raises `InvalidJob`, `UnknownJob`, `NotInitialised`."""
    with callers_transaction("hold", session) as tx:
        holds.hold(tx, kind, name, reason=reason, until=until)


def release(session: Caller, /, kind: str, name: str | int | None = None) -> bool:
    """End a hold when the caller commits; returns whether there was one. `all` ends the hold `all`, and no other.

    Raises `InvalidJob`, `NotInitialised`."""
    with callers_transaction("release", session) as tx:
        return holds.release(tx, kind, name)


def set_limit(
    session: Caller,
    /,
    name: str,
    *,
    resource: Amount | None = None,
    rate: Amount | None = None,
    budget: Amount | None = None,
    per: Duration | None = None,
    each: str | None = None,
    group: str | None = None,
) -> None:
    """Make a limit, or replace all that it says but its kind, when the caller commits.

    One amount, exact, with at most six decimal places; 0 closes it. `resource`: held while jobs are leased or running.
    `rate`: begun in any window of `per`. `budget`: had in all, or in each window of `per`, a duration, `day` or
    `month`. `each="group"`: every group counts for itself; with `group`, that group's own amount. Raises `InvalidJob`,
    `NotInitialised`."""
    kinds = {"resource": resource, "rate": rate, "budget": budget}
    with callers_transaction("set_limit", session) as tx:
        limit_settings.set_limit(tx, name, **kinds, per=per, each=each, group=group)


def set_group(session: Caller, /, name: str, *, weight: int) -> None:
    """Give a group a weight in the fair share, in place of what its jobs say, when the caller commits.

    Raises `InvalidJob`, `NotInitialised`."""
    with callers_transaction("set_group", session) as tx:
        group_settings.set_group(tx, name, weight=weight)
