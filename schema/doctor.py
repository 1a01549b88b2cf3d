"""`doctor`: look for rows that break a rule, slice by slice in short snapshots; `repair` computes counters anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine, select

from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.graph_invariants import GRAPH_INVARIANTS
from sqljobs.schema.invariants import INVARIANTS, Invariant
from sqljobs.schema.repair import repair_counters
from sqljobs.schema.snapshots import read_snapshot
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database, Transaction

RULES = (*INVARIANTS, *GRAPH_INVARIANTS)
REPAIRABLE = tuple(rule for rule in RULES if rule.repair)
JOBS_AT_ONCE = 5000
IDS_NAMED = 20
HIGHEST_ID = 2**63 - 1
# Supervisors act at each heartbeat, which is shorter than the ttl, and take back a lease after two of them.
PATIENCE_IN_TTLS = 3
SHORTEST_PATIENCE_SECONDS = 60.0  # short leases make no faster machine


@dataclass(frozen=True)
class Finding:
    """One rule that rows break. `count`: jobs that did; `job_ids`: at most 20 of them, those still broken first;
    `repaired`: how many of them are right now. `warning`: no rule is broken, but supervisors seem not to act."""

    code: str
    text: str
    count: int
    job_ids: tuple[int, ...]
    repaired: int = 0
    warning: bool = False

    @property
    def is_broken(self) -> bool:
        """Whether something is left that is wrong, and not merely late."""
        return self.count > self.repaired and not self.warning


def doctor(engine: Engine, *, repair: bool = False) -> list[Finding]:
    """What is wrong with the rows; an empty list when nothing is. Safe while supervisors run.

    With `repair` the counters (of unsatisfied dependencies, of children) are computed anew, and jobs that are then
    blocked by nothing become ready; nothing else is changed. Raises `TypeError` for anything but an Engine,
    `NotInitialised`, `DatabaseUnavailable`."""
    if not isinstance(engine, Engine):
        raise TypeError(
            f"doctor needs a SQLAlchemy Engine, not {type(engine).__name__}: it opens connections of its own"
        )
    return check_up(Database.of(engine), repair=repair)


def check_up(database: Database, *, repair: bool = False, jobs_at_once: int = JOBS_AT_ONCE) -> list[Finding]:
    """The same; `jobs_at_once` bounds what one statement looks at."""
    found = _look(database, RULES, jobs_at_once)
    if not repair or not any(finding.is_broken for finding in found.values()):
        return list(found.values())
    for ids in _slices_of_ids(database, REPAIRABLE, jobs_at_once):
        repair_counters(database, ids)
    left = _look(database, RULES, jobs_at_once)
    return [finding for code in _codes(found, left) if (finding := _merged(found.get(code), left.get(code)))]


def examine(tx: Transaction) -> list[Finding]:
    """What `tx` sees of all jobs, for callers that have a transaction of their own."""
    found: dict[str, Finding] = {}
    _add(found, _broken(tx, RULES, 0, None))
    return list(found.values())


Broken = list[tuple[Invariant, Sequence[int]]]


def _look(database: Database, rules: Iterable[Invariant], size: int) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for broken in _slices(database, rules, size):
        _add(found, broken)
    return {rule.code: found[rule.code] for rule in RULES if rule.code in found}


def _slices_of_ids(database: Database, rules: Iterable[Invariant], size: int) -> Iterator[list[int]]:
    for broken in _slices(database, rules, size):
        yield sorted({job_id for _, ids in broken for job_id in ids})


def _slices(database: Database, rules: Iterable[Invariant], size: int) -> Iterator[Broken]:
    """What is broken in each slice. A rule concerns a job and its neighbours, so each slice has its own snapshot."""
    after: int | None = 0
    while after is not None:

        def look(tx: Transaction, after: int = after) -> tuple[int | None, Broken]:
            last = _last_of_slice(tx, after, size)
            return last, _broken(tx, rules, after, last)

        after, broken = read_snapshot(database, "doctor", look)
        yield broken


def _last_of_slice(tx: Transaction, after: int, size: int) -> int | None:
    """The last id of the slice; None when it is the last slice, to which all ids belong that are above."""
    ids = select(jobs.c.id).where(jobs.c.id > after).order_by(jobs.c.id).offset(size - 1).limit(1)
    return tx.execute("slice", ids).scalar()


def _broken(tx: Transaction, rules: Iterable[Invariant], after: int, last: int | None) -> Broken:
    stale = _stale(tx)
    given = {"after": after, "last": HIGHEST_ID if last is None else last, "now": tx.now, "stale": stale}
    found = (
        (rule, tx.execute(rule.code, rule.broken, given).scalars().all())
        for rule in rules
        if stale is not None or not rule.late
    )
    return [(rule, sorted(ids)) for rule, ids in found if ids]


def _stale(tx: Transaction) -> datetime | None:
    """Since when a supervisor lives that should have done what was due before; None when there is none."""
    living = (
        select(job_supervisors.c.started_at, job_supervisors.c.heartbeat_at, job_supervisors.c.ttl)
        .where(job_supervisors.c.name_slot.is_not(None))
        .order_by(job_supervisors.c.started_at)
    )
    rows = [row for row in tx.execute("living", living) if tx.now - row.heartbeat_at < timedelta(seconds=row.ttl)]
    longest = max((row.ttl for row in rows), default=0.0)
    patience = timedelta(seconds=max(SHORTEST_PATIENCE_SECONDS, PATIENCE_IN_TTLS * longest))
    return tx.now - patience if rows and rows[0].started_at < tx.now - patience else None


def _add(found: dict[str, Finding], broken: Broken) -> None:
    for rule, ids in broken:
        former = found.get(rule.code, Finding(rule.code, rule.text, 0, (), warning=rule.late))
        named = (*former.job_ids, *ids)[:IDS_NAMED]
        found[rule.code] = Finding(rule.code, rule.text, former.count + len(ids), named, warning=rule.late)


def _codes(*found: dict[str, Finding]) -> list[str]:
    return [rule.code for rule in RULES if any(rule.code in one for one in found)]


def _merged(before: Finding | None, after: Finding | None) -> Finding | None:
    """What `before` has become. What was merely late may have been done by a supervisor: no merit of the repair."""
    if before is None or before.warning:
        return after
    left = after.count if after is not None else 0
    named = after.job_ids if after is not None else before.job_ids
    count = max(before.count, left)
    return Finding(before.code, before.text, count, named, repaired=count - left)
