"""Holds: what an operator keeps from being claimed, put there and taken away, and what the holds in force cover.

Running jobs are nobody's business here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import case, delete, literal, or_, select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.control_tables import job_holds
from sqljobs.schema.durations import moment_at, parse_moment
from sqljobs.schema.errors import InvalidJob, UnknownJob
from sqljobs.schema.families import begun_containers
from sqljobs.schema.renderings import safe_text, shown
from sqljobs.schema.states import State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.values import check_choice, check_ids, check_name
from sqljobs.schema.wake import wake

ALL = "all"
KINDS = ("job", "type", "group", "limit", "supervisor", ALL)
REASON_BYTES = 10_000


@dataclass(frozen=True)
class Hold:
    """One hold. `name` is None for the kind `all`, else text, also that of a job, which is its id. Times are aware."""

    kind: str
    name: str | None
    reason: str | None
    since: datetime
    until: datetime | None

    @property
    def text(self) -> str:
        """What is held, and why, in words."""
        held = "all jobs are held" if self.name is None else f"{self.kind} {self.name} is held"
        return f"{held}: {self.reason}" if self.reason else held

    def as_dict(self) -> dict[str, Any]:
        """The fields of `status --json`; times are datetimes."""
        names = ("kind", "name", "reason", "since", "until")
        return {name: getattr(self, name) for name in names}


class Around(NamedTuple):
    """A container around a job, as far as holds are about it."""

    id: int
    type: str
    group_key: str


class Holds:
    """The holds that were in force at one moment. Pure."""

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self.listed = tuple(sorted(holds, key=lambda hold: (hold.kind, _order(hold))))
        by_kind: dict[str, dict[str, Hold]] = {kind: {} for kind in KINDS}
        for hold in self.listed:
            by_kind[hold.kind][hold.name or ""] = hold
        self.of_all: Hold | None = by_kind[ALL].get("")
        self.jobs: Mapping[int, Hold] = {int(name): hold for name, hold in by_kind["job"].items()}
        self.types: Mapping[str, Hold] = by_kind["type"]
        self.groups: Mapping[str, Hold] = by_kind["group"]
        self.limits: Mapping[str, Hold] = by_kind["limit"]
        self.supervisors: Mapping[str, Hold] = by_kind["supervisor"]

    def __bool__(self) -> bool:
        return bool(self.listed)

    @property
    def may_hold_containers(self) -> bool:
        """Whether any of these could be about a container, and so about all that is in it."""
        return bool(self.jobs or self.types or self.groups)

    def supervisor(self, name: str) -> Hold | None:
        """The hold that keeps this supervisor from claiming anything: its own, or that of all jobs."""
        return self.supervisors.get(name) or self.of_all

    def on(self, job_id: int, job_type: str, group: str) -> list[Hold]:
        """The holds on this very job, or container: by its id, its type, its group."""
        found = (self.jobs.get(job_id), self.types.get(job_type), self.groups.get(group))
        return [hold for hold in found if hold is not None]

    def all_covering(
        self, job_id: int, job_type: str, group: str, limits: Iterable[str] = (), ancestors: Iterable[Any] = ()
    ) -> list[Hold]:
        """Every hold that keeps this job from starting, each once, the closest first.

        `limits`: names of what it uses. `ancestors`: the containers around it, innermost first, anything with the
        attributes of `Around`."""
        found = self.on(job_id, job_type, group)
        found += [self.limits[name] for name in limits if name in self.limits]
        for around in ancestors:
            found += self.on(around.id, around.type, around.group_key)
        if self.of_all is not None:
            found.append(self.of_all)
        return list(dict.fromkeys(found))

    def covering(
        self, job_id: int, job_type: str, group: str, limits: Iterable[str] = (), ancestors: Iterable[Any] = ()
    ) -> Hold | None:
        """The first of `all_covering`, or None."""
        return next(iter(self.all_covering(job_id, job_type, group, limits, ancestors)), None)


def _order(hold: Hold) -> tuple[int, str]:
    return (int(hold.name or 0), "") if hold.kind == "job" else (0, hold.name or "")


def hold(tx: Transaction, kind: str, name: object, *, reason: object = None, until: object = None) -> Hold:
    """Keep what is named from being claimed, from the commit on. Held already: reason and until are replaced.

    `kind`: one of `KINDS`; `name`: a job's id, as a number or its digits, a name, or None for `all`. `until`: an aware
    datetime, ISO text with offset, or a duration from now. Raises `InvalidJob` and `UnknownJob`."""
    stored = check_held(kind, name)
    why, end = _check_reason(reason), None if until is None else parse_moment(until, what="until")
    if kind == "job" and tx.execute("job", select(jobs.c.id).where(jobs.c.id == int(stored))).first() is None:
        raise UnknownJob(f"there is no job {stored}")
    told = {"reason": why, "until": None if end is None else moment_at(end, tx.now)}
    # A hold that has run out is not continued. `since` goes first: it looks at the old `until`.
    over = job_holds.c.until <= tx.now
    changes = {"since": case((over, tx.now), else_=job_holds.c.since), **told}
    tx.step("hold")
    tx.dialect.upsert(tx.conn, job_holds, {"kind": kind, "name": stored, "since": tx.now, **told}, changes)
    wake(tx)  # an end that is earlier than before
    # Our own write, which every isolation level shows.
    return _hold(tx.execute("read", select(job_holds).where(*_is(kind, stored))).one())


def release(tx: Transaction, kind: str, name: object) -> bool:
    """End a hold; returns whether there was one in force. `all` ends the hold `all` alone. Raises `InvalidJob`."""
    return take_away(tx, kind, name) is not None


def take_away(tx: Transaction, kind: str, name: object) -> Hold | None:
    """The same; returns the hold that this ended."""
    where = _is(kind, check_held(kind, name))
    # Locked, since a caller's snapshot may not show it.
    row = tx.execute("read", tx.dialect.lock(select(job_holds).where(*where))).first()
    if row is None:
        return None
    tx.execute("release", delete(job_holds).where(*where))
    wake(tx)
    return None if row.until is not None and row.until <= tx.now else _hold(row)


def read_holds(tx: Transaction) -> Holds:
    """The holds in force now."""
    statement = select(job_holds).where(or_(job_holds.c.until.is_(None), job_holds.c.until > tx.now))
    return Holds(_hold(row) for row in tx.execute("holds", statement))


def held_containers(tx: Transaction, holds: Holds) -> frozenset[int]:
    """The containers whose members may not start: those that these holds are about, and all containers in them.

    Only containers that have begun, since of all others no member is ready. Costs nothing without such a hold."""
    if not holds.may_hold_containers:
        return frozenset()
    begun = jobs.c.state == literal(State.WAITING.value, literal_execute=True)  # as the partial index says it
    found: set[int] = set()
    for column, names in ((jobs.c.id, holds.jobs), (jobs.c.type, holds.types), (jobs.c.group_key, holds.groups)):
        for chunk in chunks(sorted(names)):
            found |= set(tx.execute("held", select(jobs.c.id).where(begun, column.in_(chunk))).scalars())
    return frozenset(found) | begun_containers(tx, found)


def check_held(kind: object, name: object) -> str:
    """The name under which a hold is stored, '' for `all`. Raises `InvalidJob`, `UnknownJob` for an impossible id."""
    known = check_choice("kind", kind, KINDS)
    if known == ALL:
        if name is not None:
            raise InvalidJob(f"all is all there is: leave the name {shown(name)} out")
        return ""
    if known == "job":
        return str(check_ids([_number(name)])[0])
    if name is None:
        raise InvalidJob(f"which {known}? Name it")
    return check_name(known, name)


def _number(name: object) -> object:
    if isinstance(name, str) and name.isascii() and name.isdecimal():
        if len(name) > 19:
            raise UnknownJob(f"there is no job {name[:40]}")
        return int(name)
    return name


def _check_reason(reason: object) -> str | None:
    if reason is None or (isinstance(reason, str) and not reason.strip()):
        return None
    if not isinstance(reason, str):
        raise InvalidJob(f"reason must be text, not {shown(reason)}")
    return safe_text(reason.strip(), limit_bytes=REASON_BYTES)


def _is(kind: str, name: str) -> tuple[Any, Any]:
    return job_holds.c.kind == kind, job_holds.c.name == name


def _hold(row: Any) -> Hold:
    return Hold(row.kind, row.name or None, row.reason, row.since, row.until)
