"""Start ended jobs again, or declare them done, and reopen what their bad end had closed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from sqljobs.schema.chunks import chunks
from sqljobs.schema.columns import JsonText
from sqljobs.schema.edges import look_again, undoable, unsatisfy
from sqljobs.schema.ends import End, lock_rows, read_rows
from sqljobs.schema.errors import Refused, UnknownJob
from sqljobs.schema.families import ancestors, descendants, with_members
from sqljobs.schema.forget import forget
from sqljobs.schema.graph import NOT_NEEDED
from sqljobs.schema.intents import leave
from sqljobs.schema.moves import move
from sqljobs.schema.refusals import refuse_reopening
from sqljobs.schema.reopen import Reopening, find_closed, reopen
from sqljobs.schema.retry_rules import BAD, Rule, meant_in, retry_rule, skip_rule
from sqljobs.schema.settling import resettle, settle
from sqljobs.schema.snapshots import sees_old_rows
from sqljobs.schema.states import FINAL, IN_FLIGHT, Event, State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction


def retry(tx: Transaction, ids: Sequence[int], *, dry_run: bool = False, from_scratch: bool = False) -> list[int]:
    """Retry all of `ids`, or none; returns their ids, those of members that are retried with a container, and those of
    other jobs that this reopens.

    `attempt` stays; `max_attempts` becomes `attempt` plus the number first given. Of a container all that failed in it,
    or that an operator cancelled, is retried. `from_scratch`: what is retried forgets its checkpoint, its steps and its
    progress. Raises `UnknownJob`, and `Refused` for a job that is open or done, that
    was cancelled because of another, whose key was taken meanwhile, or that would wait for itself."""
    wanted = sorted(set(ids))
    found, rows = _find(tx, wanted, retry_rule())
    refuse_reopening(tx, found, found.all, [rows[i] for i in sorted(found.all)])
    if not dry_run:
        _reopen(tx, found, rows)
        if from_scratch:
            forget(tx, found.roots)
        _settle_opened(tx, found, found.all)
    return [*wanted, *sorted(found.all - set(wanted))]


def skip(tx: Transaction, ids: Sequence[int], result: JsonText | None = None, *, dry_run: bool = False) -> list[int]:
    """Declare failed jobs done, with this result, all or none, and reopen what their failure had closed; returns as
    `retry`.

    Of a container all that failed in it. Raises `UnknownJob`, and `Refused` for a job that has not failed, or where
    what this reopens could not be retried."""
    wanted = sorted(set(ids))
    found, rows = _find(tx, wanted, skip_rule(result))
    others = found.all - found.roots
    refuse_reopening(tx, found, others, [rows[i] for i in sorted(others)])
    if not dry_run:
        _reopen(tx, found, rows, roots=False)
        values = {"reason": "skipped", "reason_text": "skipped by an operator", "reason_job_id": None, "result": result}
        move(tx, Event.SKIP, State.DONE, found.roots, values)
        _settle_opened(tx, found, others)
        ended = [End(i, State.DONE, "skipped", i, rows[i].parent_id) for i in sorted(found.roots)]
        settle(tx, *ended)
    return [*wanted, *sorted(found.all - set(wanted))]


def retryable(tx: Transaction, ids: Sequence[int]) -> list[int]:
    """Those of `ids` that ended badly by themselves, or as containers, and not because of another job."""
    found: list[int] = []
    bad = (jobs.c.state.in_(BAD), func.coalesce(jobs.c.reason, "").not_in(("dependency", NOT_NEEDED)))
    for chunk in chunks(ids):
        found += tx.execute("retryable", select(jobs.c.id).where(jobs.c.id.in_(chunk), *bad)).scalars()
    return sorted(found)


def _find(tx: Transaction, wanted: Sequence[int], rule: Rule) -> tuple[Reopening, dict[int, Any]]:
    """What opens again with `wanted`, and the rows of all that, locked."""
    seen = {row.id: row for row in read_rows(tx, "look", wanted)}
    for job_id in wanted:
        if job_id not in seen:
            raise UnknownJob(f"there is no job {job_id}")
        if not rule.is_reopened(seen[job_id]):  # with another one of these, or not at all
            rule.refuse(seen[job_id])
    roots, holding = _meant(tx, seen.values(), rule)
    ended: set[int] = set()
    while True:
        keys = {(seen[i].type, seen[i].key) for i in wanted if seen[i].key is not None}
        found = find_closed(tx, roots, keys, ended=ended)
        # All that may be written, and all that may end meanwhile, in one order: others do the same at the same jobs.
        # But for a job that runs, which must not wait for a caller, and counts its members at its end.
        around = {row.id for row in ancestors(tx, found.all) if State(row.state) not in IN_FLIGHT}
        concerned = found.all | around | undoable(tx, found.all) | set(wanted)
        rows = {row.id: row for row in lock_rows(tx, "lock", concerned)}
        # What ended around these, or in them, between our look and our lock: look again.
        late = {job_id for job_id in around - found.all if _has_ended_badly(rows[job_id])}
        again = _meant(tx, seen.values(), rule)[0] if holding else roots
        if not late and again == roots:
            break
        ended, roots = ended | late, again
    for job_id in wanted:
        if job_id not in found.all:
            rule.refuse(rows[job_id])
    found.roots = {i for i in found.roots if i in wanted or rule.is_meant(rows[i])}
    if wanted and not found.roots:
        raise Refused(f"job {wanted[0]} cannot be {rule.done}: nothing in it has failed")
    return found, rows


def _meant(tx: Transaction, named: Collection[Any], rule: Rule) -> tuple[set[int], bool]:
    """The jobs to be opened, and whether some are so with what their handlers have put into them."""
    meant: set[int] = set()
    chosen = [row for row in named if not rule.is_reopened(row)]
    attempted = [row.id for row in chosen if row.attempt and not row.container] if rule.with_members else []
    holding = with_members(tx, attempted)
    for row in chosen:
        holds_others = row.container or row.id in holding
        meant |= meant_in(row, descendants(tx, [row.id]), rule) if holds_others else {row.id}
    return meant, bool(holding)


def _has_ended_badly(row: Any) -> bool:
    return State(row.state) in FINAL and row.state != State.DONE.value


def _reopen(tx: Transaction, found: Reopening, rows: Mapping[int, Any], *, roots: bool = True) -> None:
    if not any(rows[i].key is not None for i in found.all):
        reopen(tx, found, rows, roots=roots)
        return
    try:
        with tx.conn.begin_nested():
            reopen(tx, found, rows, roots=roots)
    except IntegrityError:
        raise Refused("a key of these jobs was taken while they were to be opened again: look again") from None


def _settle_opened(tx: Transaction, found: Reopening, opened: set[int]) -> None:
    """What follows from the new beginning: edges taken back or looked at once more; what waits for nothing goes on."""
    unsatisfy(tx, found.all, dependents=opened)
    look_again(tx, sorted(opened))
    if sees_old_rows(tx):  # followers of which it shows nothing are for supervisors
        leave(tx, "recheck", sorted(found.all))
    resettle(tx, lock_rows(tx, "opened", opened))
