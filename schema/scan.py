"""The scan of ready jobs: the lanes that there are, and the first jobs of each. Reads only, and never a whole lane.

A lane is what admission cannot tell apart: jobs alike in group, type, uses and priority. Behind the first jobs of a
lane nothing needs to be looked at; and no lane, however long and however blocked, hides another."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from sqljobs.schema.chunks import chunks
from sqljobs.schema.dialects.contract import FirstRows
from sqljobs.schema.lane_statements import (
    HELD_CONTAINERS,
    HELD_JOBS,
    heads_of,
    joined_heads,
    lanes_of,
    placed_ids,
    united_heads,
)
from sqljobs.schema.ready import Wanted
from sqljobs.schema.transactions import Transaction

MOST_TERMS = 500
MOST_PLACES = 16  # beyond, the places cost more than a UNION: each walks over those before it
UNUSED_PRIORITY = 10_000  # beyond what any job may have: a lane of it is empty


class Lane(NamedTuple):
    """Ready jobs alike in all that decides whether one may start. `uses_key`: '' where they follow their handler."""

    group: str
    type: str
    uses_key: str
    priority: int


@dataclass(frozen=True)
class ReadyJob:
    """A job that may start, as far as ranking and admission need it. `created_at` in seconds since the epoch.

    `own_uses`: amounts by name that the job itself was given, maybe none; None: those of its handler apply."""

    job_id: int
    group: str
    weight: int
    priority: int
    created_at: float
    type: str
    uses_key: str
    parent_id: int | None
    own_uses: Mapping[str, Decimal] | None

    @property
    def lane(self) -> Lane:
        return Lane(self.group, self.type, self.uses_key, self.priority)


@dataclass(frozen=True)
class Skip:
    """What shall not be found. `jobs`: ids, few. `containers`: ids of containers whose own members are left out."""

    types: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    jobs: frozenset[int] = frozenset()
    containers: frozenset[int] = frozenset()
    lanes: frozenset[Lane] = frozenset()

    def lets_pass(self, lane: Lane) -> bool:
        """Whether jobs of this lane may be found."""
        return lane.type not in self.types and lane.group not in self.groups and lane not in self.lanes


NOTHING_SKIPPED = Skip()


def scan(tx: Transaction, wanted: Wanted, count: int, skip: Skip = NOTHING_SKIPPED) -> list[ReadyJob]:
    """The first `count` ready jobs of every lane that may be claimed."""
    return heads(tx, find_lanes(tx, wanted, skip), count, skip)


def find_lanes(tx: Transaction, wanted: Wanted, skip: Skip = NOTHING_SKIPPED) -> list[Lane]:
    """The lanes of wanted jobs, in order, at a cost of one look at the index for each lane of anybody."""
    how = tx.dialect.prefix_reading(tx.conn)
    found = tx.execute("lanes", lanes_of(how, wanted))
    lanes = (Lane(row.group_key, row.type, row.uses_key, row.priority) for row in found)
    return sorted(lane for lane in lanes if skip.lets_pass(lane))


def heads(tx: Transaction, lanes: Collection[Lane], count: int, skip: Skip = NOTHING_SKIPPED) -> list[ReadyJob]:
    """The first `count` jobs of each lane, oldest first within a lane, lanes in the order given."""
    asked = [lane for lane in lanes if skip.lets_pass(lane)]
    if not asked or count <= 0:
        return []
    found: dict[tuple[Any, ...], list[ReadyJob]] = {lane: [] for lane in asked}
    for job_id, weight, created_at, parent_id, uses, *lane in _rows(tx, asked, count, skip):
        group, job_type, uses_key, priority = lane
        own_uses = (uses or {}) if uses_key else None
        seconds = created_at.timestamp()
        found[*lane].append(ReadyJob(job_id, group, weight, priority, seconds, job_type, uses_key, parent_id, own_uses))
    return [job for heads in found.values() for job in sorted(heads, key=lambda job: (job.created_at, job.job_id))]


def _rows(tx: Transaction, lanes: Sequence[Lane], count: int, skip: Skip) -> Iterator[Any]:
    held = {HELD_JOBS: sorted(skip.jobs), HELD_CONTAINERS: sorted(skip.containers)}
    values: dict[str, Any] = {name: ids for name, ids in held.items() if ids}
    kept_back = (bool(skip.jobs), bool(skip.containers))
    how = tx.dialect.prefix_reading(tx.conn)
    if how.first_rows is not FirstRows.PLACES:
        values |= {"count": count, "lanes": json.dumps(lanes)}
        yield from tx.execute("heads", joined_heads(how, *kept_back), values)
    elif count <= min(MOST_PLACES, len(lanes)):
        places = tx.execute("places", placed_ids(how, count, *kept_back), {**values, "lanes": json.dumps(lanes)})
        ids = [job_id for row in places for job_id in row if job_id is not None]
        for portion in chunks(ids):
            yield from tx.execute("heads", heads_of(portion))
    else:
        for some in chunks(lanes, MOST_TERMS):
            size = min(MOST_TERMS, 1 << (len(some) - 1).bit_length())  # few sizes, each of which is compiled once
            values |= {"count": count, **_numbered(some, size)}
            yield from tx.execute("heads", united_heads(size, *kept_back), values)


def _numbered(lanes: Sequence[Lane], size: int) -> dict[str, Any]:
    padded = [*lanes, *[Lane("", "", "", UNUSED_PRIORITY)] * (size - len(lanes))]
    return {f"{name}{n}": value for n, lane in enumerate(padded) for name, value in zip("gtup", lane, strict=True)}
