"""Why is this job not running? Reads in a bounded number of statements what could keep it; writes and locks nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import and_, select

from sqljobs.schema.admission import Kind, Room, refusal
from sqljobs.schema.amounts import all_micros
from sqljobs.schema.conditions import is_unset
from sqljobs.schema.contenders import read_turn
from sqljobs.schema.errors import UnknownJob
from sqljobs.schema.facts import Facts, Wait
from sqljobs.schema.fleet import read_fleet
from sqljobs.schema.headlines import headline
from sqljobs.schema.holds import Hold, Holds, read_holds
from sqljobs.schema.job_info import as_plain
from sqljobs.schema.limit_tables import job_charges
from sqljobs.schema.reason import BLOCKERS_SHOWN, Reason
from sqljobs.schema.reasons import why_not, why_not_begun
from sqljobs.schema.reasons_of_state import Culprit, container, ended, running
from sqljobs.schema.rooms import is_live, read_rooms
from sqljobs.schema.states import FINAL, IN_FLIGHT, OPEN, State
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.windows import length_of

TRIES = 3
_COLUMNS = tuple(column for column in jobs.c if column.name not in ("args", "result"))


@dataclass(frozen=True)
class Explained:
    """A job, its state, and why it does not run, the reason to remove first in front; none when it may start at the
    next tick."""

    id: int
    state: str
    reasons: tuple[Reason, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values: `{id, state, reasons: [{code, text, job_id, until, blockers}]}`."""
        plain = as_plain(self)
        assert isinstance(plain, dict)
        return plain


def explain(tx: Transaction, job_id: int) -> Explained:
    """Why the job `job_id` is not running now. Raises `UnknownJob`."""
    explained = _explain(tx, job_id, members=True)
    for _ in range(TRIES):
        # Where each statement sees what was committed before it, the job may have been claimed in the middle, and be
        # told to wait for what it now holds itself.
        if tx.execute("state", select(jobs.c.state).where(jobs.c.id == job_id)).scalar() == explained.state:
            break
        explained = _explain(tx, job_id, members=True)
    return explained


def _explain(tx: Transaction, job_id: int, *, members: bool) -> Explained:
    row = tx.execute("job", select(*_COLUMNS).where(jobs.c.id == job_id)).one_or_none()
    if row is None:
        raise UnknownJob(f"there is no job {job_id}")
    state = State(row.state)
    if state in FINAL:
        reasons = [ended(row, _culprit(tx, row))]
    elif state in IN_FLIGHT:
        reasons = [running(row, _attempt(tx, row), tx.now)]
    elif state is State.WAITING:
        reasons = [_container(tx, row, members=members)]
    else:
        reasons = _unclaimed(tx, row)
    return Explained(row.id, row.state, tuple(reasons))


def _culprit(tx: Transaction, row: Any) -> Culprit | None:
    if row.reason_job_id is None:
        return None
    statement = select(jobs.c.state, jobs.c.reason, jobs.c.reason_text).where(jobs.c.id == row.reason_job_id)
    found = tx.execute("culprit", statement).one_or_none()
    return None if found is None else Culprit(found.state, found.reason, found.reason_text)


def _attempt(tx: Transaction, row: Any) -> Any:
    columns = (job_attempts.c.supervisor, job_attempts.c.claimed_at, job_attempts.c.cause, job_attempts.c.error)
    this = and_(job_attempts.c.job_id == row.id, job_attempts.c.attempt == row.attempt)
    return tx.execute("attempt", select(*columns).where(this)).one_or_none()


def _container(tx: Transaction, row: Any, *, members: bool) -> Reason:
    """`members`: say of the first open one, too, what keeps it."""
    is_open = jobs.c.state.in_(sorted(state.value for state in OPEN))
    statement = select(jobs.c.id, jobs.c.type, jobs.c.state).where(jobs.c.parent_id == row.id, is_open)
    found = [tuple(one) for one in tx.execute("members", statement.order_by(jobs.c.id).limit(BLOCKERS_SHOWN))]
    first = _explain(tx, found[0][0], members=False).reasons if found and members else ()
    return container(row, found, first)


def _unclaimed(tx: Transaction, row: Any) -> list[Reason]:
    around = _around(tx, row)
    holds = read_holds(tx)
    facts = Facts(row.type, row.group_key, waits=_waits(tx, row, around))
    if row.container:
        return why_not_begun(replace(facts, holds=_covering(row, holds, (), around)))
    fleet = read_fleet(tx)
    uses = all_micros(row.uses) if "uses" in (row.given or ()) else fleet.uses_of(row.type)
    found = read_rooms(tx, {(name, row.group_key) for name in uses}) if uses else {}
    rooms = {name: room for (name, _), room in found.items()}
    due = row.run_after if row.run_after is not None and row.run_after > tx.now else None
    facts = replace(
        facts,
        due=due,
        tried=_tried(tx, row) if due is not None and row.attempt else "",
        holds=_covering(row, holds, uses, around),
        held_crews=holds.supervisors,
        fleet=fleet,
        uses=uses,
        rooms=rooms,
        holders=_holders(tx, uses, rooms),
    )
    reasons = why_not(facts)
    competes = row.state != State.BLOCKED.value and due is None and bool(facts.takers)
    if not competes or (facts.has_free_slot and reasons):
        return reasons
    return why_not(replace(facts, turn=read_turn(tx, row, facts, holds)))


def _around(tx: Transaction, row: Any) -> list[Any]:
    """The containers around the job, innermost first."""
    columns = (jobs.c.id, jobs.c.type, jobs.c.group_key, jobs.c.parent_id, jobs.c.unmet_deps)
    found: list[Any] = []
    above = row.parent_id
    while above is not None:
        one = tx.execute("around", select(*columns).where(jobs.c.id == above)).one_or_none()
        if one is None:
            break
        found.append(one)
        above = one.parent_id
    return found


def _waits(tx: Transaction, row: Any, around: Sequence[Any]) -> list[Wait]:
    """What the job waits for, and what the innermost container around it does that waits for something."""
    found: list[Wait] = []
    if row.unmet_deps:
        upstreams = _upstreams(tx, row.id)
        found += [Wait(upstreams, max(len(upstreams), row.unmet_deps))] if upstreams else []
    if row.closed_gates:
        gate = next((one for one in around if one.unmet_deps), None)
        upstreams = [] if gate is None else _upstreams(tx, gate.id)
        closed = row.parent_id if gate is None else gate.id
        found.append(Wait(upstreams, 0 if gate is None else max(len(upstreams), gate.unmet_deps), closed))
    return found


def _upstreams(tx: Transaction, job_id: int) -> list[tuple[int, str | None, str | None]]:
    statement = (
        select(job_deps.c.depends_on_id, jobs.c.type, jobs.c.state)
        .join(jobs, jobs.c.id == job_deps.c.depends_on_id, isouter=True)
        .where(job_deps.c.job_id == job_id, is_unset(job_deps.c.satisfied))
        .order_by(job_deps.c.position, job_deps.c.depends_on_id)
        .limit(BLOCKERS_SHOWN)
    )
    return [(row.depends_on_id, row.type, row.state) for row in tx.execute("upstreams", statement)]


def _covering(row: Any, holds: Holds, uses: Any, around: Sequence[Any]) -> list[tuple[Hold, int | None]]:
    def where(hold: Hold) -> int | None:
        if hold in holds.on(row.id, row.type, row.group_key) or hold.kind in ("limit", "all"):
            return None
        return next((one.id for one in around if hold in holds.on(one.id, one.type, one.group_key)), None)

    found = holds.all_covering(row.id, row.type, row.group_key, uses, around)
    return [(hold, where(hold)) for hold in found]


def _tried(tx: Transaction, row: Any) -> str:
    """Why a job waits that has run before."""
    last = _attempt(tx, row)
    if last is None or last.cause is None:
        return ""
    line = headline(last.error)
    return f"attempt {row.attempt} of at most {row.max_attempts} ended as {last.cause}" + (f" ({line})" if line else "")


def _holders(tx: Transaction, uses: Mapping[str, int], rooms: Mapping[str, Room]) -> dict[str, list[int]]:
    """Some jobs that have of each limit which has too little left: those in flight, of a rate all that count."""
    found: dict[str, list[int]] = {}
    for name, room in rooms.items():
        if refusal(name, uses[name], room) is None:
            continue
        charges = select(job_charges.c.job_id).where(
            job_charges.c.name == name, job_charges.c.group_key == room.account.group
        )
        if room.kind is Kind.RATE:
            since: datetime = tx.now - length_of(room.per or "0")
            charges = charges.where(job_charges.c.counted_at > since)
        else:
            charges = charges.join(jobs, is_live())
        statement = charges.distinct().order_by(job_charges.c.job_id).limit(BLOCKERS_SHOWN)
        found[name] = list(tx.execute("holders", statement).scalars())
    return found
