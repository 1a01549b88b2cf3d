"""The ready jobs that one competes with, and what the groups have had: what a rehearsal of its turn needs. Reads only.

A bounded number of rows: of each group only the first jobs, by index, and of these only those that may matter."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqljobs.schema.amounts import all_micros
from sqljobs.schema.crew import Fleet, Micros
from sqljobs.schema.facts import Facts
from sqljobs.schema.group_settings import read_weights
from sqljobs.schema.holds import Holds, held_containers
from sqljobs.schema.ready import Wanted
from sqljobs.schema.rooms import read_rooms
from sqljobs.schema.scan import ReadyJob, Skip, scan
from sqljobs.schema.supervisors import read_usage
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.turns import Contender, Field, Shares, Turn, rehearse_turn

COUNTED = 100  # jobs of each lane of its own group; of other groups as many as there are free slots
MOST = 1000
HALF_LIFE_SECONDS = 600.0


def read_turn(tx: Transaction, row: Any, facts: Facts, holds: Holds) -> Turn:
    """When the ready job of `row` has its turn, of which `facts` are known: among what all supervisors that claim now
    could start, or, where no slot is free for it, in its own group alone."""
    fleet = facts.fleet
    crews = [crew for crew in fleet.crews if crew.claims and crew.name not in holds.supervisors]
    mine = Contender(
        *(row.id, row.type, row.group_key, row.weight, row.priority, row.created_at.timestamp()), uses=facts.uses
    )
    types = sorted({job_type for crew in crews for job_type in crew.types})
    skip = Skip(frozenset(holds.types), frozenset(holds.groups), frozenset(holds.jobs), held_containers(tx, holds))
    before = [job for job in scan(tx, Wanted(types, [mine.group]), COUNTED, skip) if _contender(job).order < mine.order]
    is_least = len(before) >= COUNTED
    if facts.has_free_slot:
        free = sum(crew.free_slots for crew in crews)
        before += [job for job in scan(tx, Wanted(types), min(free, COUNTED), skip) if job.group != mine.group]
    others = [_contender(job, fleet) for job in before[:MOST]]
    others = [job for job in others if not job.uses.keys() & holds.limits.keys()]
    # What was told of its own limits stays true here, although other transactions may change them meanwhile.
    rooms = {(name, mine.group): room for name, room in facts.rooms.items()}
    asked = {(name, job.group) for job in others for name in job.uses} - rooms.keys()
    rooms |= read_rooms(tx, asked) if asked else {}
    competing = any(job.group != mine.group for job in others)
    shares = _shares(tx, fleet, {mine.group, *(job.group for job in others)}) if competing else Shares()
    turn = rehearse_turn(mine, Field(crews, others, rooms, shares, fleet.devices))
    return Turn(turn.starts, turn.before, turn.place, is_least)


def _contender(job: ReadyJob, fleet: Fleet | None = None) -> Contender:
    """With `fleet` also with what it uses."""
    uses: Micros = {}
    if fleet is not None:
        uses = all_micros(job.own_uses) if job.uses_key else fleet.uses_of(job.type)
    return Contender(job.job_id, job.type, job.group, job.weight, job.priority, job.created_at, uses)


def _shares(tx: Transaction, fleet: Fleet, groups: Collection[str]) -> Shares:
    """What the groups have had, as far as supervisors have published it."""
    weights = read_weights(tx, groups)
    had: dict[str, float] = {}
    seconds = starts = 0.0
    for entry in read_usage(tx, but=""):
        left = 0.5 ** (max(0.0, (tx.now - entry.as_of).total_seconds()) / HALF_LIFE_SECONDS)
        had[entry.group] = had.get(entry.group, 0.0) + entry.slot_seconds * left
        seconds, starts = seconds + entry.slot_seconds * left, starts + entry.starts * left
    length = seconds / starts if starts > 1e-6 else 1.0
    for crew in fleet.crews:
        for job in crew.flying:
            had[job.group] = had.get(job.group, 0.0) + max(0.0, length - job.elapsed)
    return Shares(had, weights, max(1e-3, length))
