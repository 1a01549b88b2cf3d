"""What is known of a job that nobody has claimed, as far as it could keep it from starting. Pure: no database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqljobs.schema.admission import Room
from sqljobs.schema.crew import Crew, Fleet, Micros
from sqljobs.schema.holds import Hold
from sqljobs.schema.turns import Turn


@dataclass(frozen=True)
class Wait:
    """What a job, or the `container` around it, waits for: (id, type, state) of the first of them, and how many there
    are. Type and state are None for one that was pruned."""

    upstreams: Sequence[tuple[int, str | None, str | None]]
    count: int
    container: int | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of a job that nobody has claimed. `due`: the time that it waits for, and `tried`: why it does.
    `holds`: each with the container around it that it is about, or None. `uses`: what it would use, in millionths;
    `rooms`: those of its limits that exist; `holders`: some of the jobs that have of a limit. `turn`: its place among
    the ready ones, None for a job that is not ready."""

    type: str
    group: str
    waits: Sequence[Wait] = ()
    due: datetime | None = None
    tried: str = ""
    holds: Sequence[tuple[Hold, int | None]] = ()
    held_crews: Mapping[str, Hold] = field(default_factory=dict)
    fleet: Fleet = field(default_factory=Fleet)
    uses: Micros = field(default_factory=dict)
    rooms: Mapping[str, Room] = field(default_factory=dict)
    holders: Mapping[str, Sequence[int]] = field(default_factory=dict)
    turn: Turn | None = None

    @property
    def able(self) -> list[Crew]:
        """Supervisors that have the handler and take from its group, whether they claim anything now or not."""
        return [crew for crew in self.fleet.crews if crew.may_claim(self.type, self.group)]

    @property
    def claiming(self) -> list[Crew]:
        """Those that would claim it: they do not drain, and are not held."""
        return [crew for crew in self.able if crew.claims and crew.name not in self.held_crews]

    @property
    def unknown(self) -> list[str]:
        """What it uses that is no limit, and no device of anybody."""
        return [name for name in self.uses if name not in self.rooms and name not in self.fleet.known_devices]

    @property
    def known_uses(self) -> Micros:
        return {name: asked for name, asked in self.uses.items() if name not in self.unknown}

    @property
    def takers(self) -> list[Crew]:
        """Supervisors that would claim it: those where all units that it needs are free, if there are any."""
        able = {crew.name for crew, units in self.crews_with_all() if crew.has_free(units)}
        return [crew for crew in self.claiming if crew.name in able] or self.claiming

    @property
    def has_free_slot(self) -> bool:
        """Whether one of those that would claim it has room for one more job."""
        return any(crew.free_slots for crew in self.takers)

    def crews_with_all(self) -> list[tuple[Crew, Mapping[str, int]]]:
        """Of those that would claim it, or else could, the ones that have all units that it needs, in use or not."""
        limits = self.rooms.keys() - self.fleet.devices
        needs = ((crew, crew.needs(self.known_uses, limits)) for crew in self.claiming or self.able)
        return [(crew, units) for crew, units in needs if units is not None]
