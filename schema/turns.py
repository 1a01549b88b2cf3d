"""Which ready jobs come before one at the next tick: a rehearsal of a claim round over all supervisors. Pure.

An estimate: supervisors rank by use that they have seen themselves, too, and need not tick at the same moment."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqljobs.schema.admission import Account, Room, admit
from sqljobs.schema.crew import Crew, Micros

AGING_SECONDS = 600.0  # what a supervisor does that was told nothing else


@dataclass(frozen=True)
class Contender:
    """A ready job that nothing holds. `created_at` in seconds since the epoch; `uses` in millionths."""

    job_id: int
    type: str
    group: str
    weight: int
    priority: int
    created_at: float
    uses: Micros = field(default_factory=dict)

    @property
    def order(self) -> tuple[float, int]:
        """Its place within its group, the first being the least."""
        return self.created_at - self.priority * AGING_SECONDS, self.job_id


@dataclass(frozen=True)
class Shares:
    """What groups have had: slot-seconds, those expected of what is in flight included; weights that operators set;
    and the mean length of a job in seconds."""

    had: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    length: float = 1.0


@dataclass(frozen=True)
class Field:
    """All that a rehearsal needs. `rooms`: of the limits that exist, by (limit, group). `devices`: of anybody."""

    crews: Sequence[Crew]
    others: Sequence[Contender]
    rooms: Mapping[tuple[str, str], Room]
    shares: Shares
    devices: Collection[str] = ()


@dataclass(frozen=True)
class Turn:
    """`starts`: whether the job may start at the next tick. `before`: those that start before it; `place`: its place
    among the jobs of its group, which may be later with `is_least`: not all were looked at."""

    starts: bool
    before: tuple[int, ...]
    place: int
    is_least: bool = False


class _Seats:
    """The free slots and units of one supervisor, while they are given out."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.slots = crew.free_slots
        self._units = {name: crew.free_units(name) for name in crew.units}

    def take(self, job: Contender, limits: Collection[str], *, only_look: bool = False) -> bool:
        needs = self.crew.needs(job.uses, limits) if self.crew.may_claim(job.type, job.group) else None
        if self.slots <= 0 or needs is None or any(self._units[name] < number for name, number in needs.items()):
            return False
        if not only_look:
            self.slots -= 1
            for name, number in needs.items():
                self._units[name] -= number
        return True


def rehearse_turn(mine: Contender, field: Field) -> Turn:
    """Give the free slots out as a claim round would, until this job has one or nothing is left for it."""
    queues = _queues([mine, *field.others])
    place = 1 + [job.job_id for job in queues[mine.group]].index(mine.job_id)
    seats = [_Seats(crew) for crew in field.crews]
    rooms = _Rooms(field.rooms, field.devices)
    started: list[int] = []
    for job in _in_turn(queues, field.shares, started):
        if not any(one.take(mine, rooms.limits_of(mine), only_look=True) for one in seats):
            return Turn(False, tuple(started), place)
        # Where the job in question could not run itself nobody takes anything from it.
        usable = sorted(seats, key=lambda one: (one.crew.may_claim(mine.type, mine.group), -one.slots))
        limits = rooms.limits_of(job)
        seat = next((one for one in usable if one.take(job, limits, only_look=True)), None)
        admitted = seat is not None and rooms.admit(job)
        if job is mine:
            return Turn(admitted, () if admitted else tuple(started), place)
        if seat is not None and admitted:
            seat.take(job, limits)
            started.append(job.job_id)
    raise AssertionError("the job itself is among those that get their turn")


class _Rooms:
    """The limits, while amounts are given out."""

    def __init__(self, rooms: Mapping[tuple[str, str], Room], devices: Collection[str]) -> None:
        self._devices = devices
        own: dict[Account, Room] = {}
        self._rooms = {asked: own.setdefault(room.account, replace(room)) for asked, room in rooms.items()}

    def limits_of(self, job: Contender) -> set[str]:
        """What it uses that is a limit and nothing else."""
        return self._known(job) - set(self._devices)

    def _known(self, job: Contender) -> set[str]:
        return {name for name in job.uses if (name, job.group) in self._rooms}

    def admit(self, job: Contender) -> bool:
        names = self._known(job)
        asked = {name: job.uses[name] for name in names}
        return admit(asked, {name: self._rooms[name, job.group] for name in names}) is None


def _queues(jobs: Iterable[Contender]) -> dict[str, list[Contender]]:
    queues: dict[str, list[Contender]] = {}
    for job in sorted(jobs, key=lambda job: job.order):
        queues.setdefault(job.group, []).append(job)
    return queues


def _in_turn(queues: Mapping[str, Sequence[Contender]], shares: Shares, started: Sequence[int]) -> Iterable[Contender]:
    """The job that is next, again and again: of the group with the least use for its weight, which pays for each of
    its jobs that has `started`."""
    weights = {name: shares.weights.get(name, queue[0].weight) for name, queue in queues.items()}
    had = {name: shares.had.get(name, 0.0) for name in queues}

    def entry(name: str, at: int) -> tuple[float, int, float, str, int]:
        return had[name] / weights[name], -weights[name], queues[name][at].created_at, name, at

    heap = [entry(name, 0) for name in queues]
    heapq.heapify(heap)
    while heap:
        _, _, _, name, at = heapq.heappop(heap)
        before = len(started)
        yield queues[name][at]
        had[name] += shares.length * (len(started) - before)
        if at + 1 < len(queues[name]):
            heapq.heappush(heap, entry(name, at + 1))
