"""What one claim round looks at: ready jobs that nothing holds, what they use, what there is of that. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqljobs.schema.amounts import all_micros
from sqljobs.schema.group_settings import read_weights
from sqljobs.schema.holds import Holds, held_containers, read_holds
from sqljobs.schema.ready import HeldSlot, Wanted, in_flight
from sqljobs.schema.rooms import Asked, read_rooms
from sqljobs.schema.scan import ReadyJob, Skip, find_lanes, heads
from sqljobs.schema.supervisors import read_supervisors
from sqljobs.schema.transactions import Transaction
from sqljobs.supervisor.admitting import Admitting, Devices, Uses
from sqljobs.worker_runtime.registry import JobType

MANY_GROUPS = 4  # times the jobs that could be started


@dataclass(frozen=True)
class Sight:
    """What was seen at `now`, the database's time. `uses`: by job, in millionths. `weights`: those that are set live.
    `held_until`: when the first hold ends by itself."""

    now: datetime
    jobs: list[ReadyJob]
    uses: Mapping[int, Uses]
    flying: list[HeldSlot]
    weights: Mapping[str, int]
    admitting: Admitting
    held_until: datetime | None


def look(
    tx: Transaction, wanted: Wanted, name: str, count: int, job_types: Mapping[str, JobType], devices: Devices
) -> Sight:
    """At most `count` jobs of each lane that the supervisor called `name` could claim."""
    holds = read_holds(tx)
    jobs = _scan(tx, wanted, count, holds) if holds.supervisor(name) is None else []
    uses = {job.job_id: _uses(job, job_types) for job in jobs}
    jobs = [job for job in jobs if not uses[job.job_id].keys() & holds.limits.keys()]
    asked: set[Asked] = {(limit, job.group) for job in jobs for limit in uses[job.job_id]}
    if asked:
        living = read_supervisors(tx, living=True)
        others = {device for other in living if not other.is_gone for device in other.devices or ()}
        devices.elsewhere = others - devices.total.keys()
    return Sight(
        now=tx.now,
        jobs=jobs,
        uses=uses,
        flying=in_flight(tx) if jobs else [],
        weights=read_weights(tx, sorted({job.group for job in jobs})) if jobs else {},
        admitting=Admitting(read_rooms(tx, asked) if asked else {}, devices),
        held_until=min((hold.until for hold in holds.listed if hold.until is not None), default=None),
    )


def _scan(tx: Transaction, wanted: Wanted, count: int, holds: Holds) -> list[ReadyJob]:
    skip = Skip(
        types=frozenset(holds.types),
        groups=frozenset(holds.groups),
        jobs=frozenset(holds.jobs),
        containers=held_containers(tx, holds),
    )
    lanes = find_lanes(tx, wanted, skip)
    # Where groups are many, hardly one gets two slots at once; should one be due more, the next tick gives them.
    many = len({lane.group for lane in lanes}) >= MANY_GROUPS * count
    return heads(tx, lanes, 1 if many else count, skip)


def _uses(job: ReadyJob, job_types: Mapping[str, JobType]) -> Uses:
    """Of its own, else what its handler says."""
    return all_micros(job.own_uses if job.uses_key else job_types[job.type].defaults.uses)
