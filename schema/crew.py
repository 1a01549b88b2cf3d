"""A living supervisor as the jobs that wait for one see it: what it could run, and what it has free. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqljobs.schema.amounts import MICRO

Micros = Mapping[str, int]  # amounts by name of limit or device, in millionths


@dataclass(frozen=True)
class Flying:
    """A job in flight: its group, how long it has run, its units of devices by name."""

    job_id: int
    group: str
    elapsed: float = 0.0
    units: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Crew:
    """A living supervisor. `groups`: the only ones that it claims from, None for any. `claims`: it neither drains nor
    stops. `units`: how many it has of each device; `type_uses`: what its handlers' jobs use."""

    name: str
    slots: int
    types: frozenset[str]
    groups: frozenset[str] | None = None
    claims: bool = True
    units: Mapping[str, int] = field(default_factory=dict)
    type_uses: Mapping[str, Micros] = field(default_factory=dict)
    flying: tuple[Flying, ...] = ()

    @property
    def free_slots(self) -> int:
        return max(0, self.slots - len(self.flying))

    def free_units(self, device: str) -> int:
        """How many units no job in flight has."""
        return self.units.get(device, 0) - sum(job.units.get(device, 0) for job in self.flying)

    def may_claim(self, job_type: str, group: str) -> bool:
        """Whether it has the handler, and the group is one of its own."""
        return job_type in self.types and (self.groups is None or group in self.groups)

    def needs(self, uses: Micros, limits: Collection[str]) -> dict[str, int] | None:
        """The units that such a job would get here; None where it can never run: what is neither a device here nor one
        of `limits`, a part of a unit, or more units than there are. `limits`: those of which nobody has a device."""
        mine = {name: amount for name, amount in uses.items() if name in self.units}
        if any(amount % MICRO or amount > self.units[name] * MICRO for name, amount in mine.items()):
            return None
        if any(name not in mine and name not in limits for name in uses):
            return None
        return {name: amount // MICRO for name, amount in mine.items()}

    def has_free(self, needs: Mapping[str, int]) -> bool:
        """Whether so many units are free of each."""
        return all(self.free_units(name) >= number for name, number in needs.items())


@dataclass(frozen=True)
class Fleet:
    """All living supervisors, and the devices that any supervisor of the last day has had."""

    crews: Sequence[Crew] = ()
    known_devices: frozenset[str] = frozenset()

    @property
    def devices(self) -> set[str]:
        """Devices of the living. A name that is a limit, too, is a device all the same."""
        return {name for crew in self.crews for name in crew.units}

    def uses_of(self, job_type: str) -> Micros:
        """What jobs of that type use that were given nothing of their own, as far as a supervisor has said so."""
        for crew in sorted(self.crews, key=lambda crew: not crew.claims):
            if job_type in crew.type_uses:
                return crew.type_uses[job_type]
        return {}
