"""What one claim round may start: amounts of limits and units of devices, reserved as it chooses. Pure: no database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqljobs.schema.admission import Refused, Room, admit, why_not
from sqljobs.schema.amounts import MICRO

Uses = Mapping[str, int]


@dataclass
class Devices:
    """Units that this supervisor has of each device, those that are free, and devices that only others have."""

    total: Mapping[str, int] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    elsewhere: Collection[str] = ()
    is_clear: bool = True  # False: what a dead predecessor has left may still use them

    def why_not(self, name: str, asked: int) -> Refused | None:
        """Why `asked` millionths of a unit cannot be had here now, or None."""
        if asked % MICRO or asked > self.total[name] * MICRO:
            return Refused("impossible", name)
        if asked > self.free[name] * MICRO or not self.is_clear:
            return Refused("device", name, passes=True)
        return None


@dataclass
class Admitting:
    """One round. `rooms`: by (limit, group), as the round has read them; `refused`: by job, for those that were."""

    rooms: Mapping[tuple[str, str], Room] = field(default_factory=dict)
    devices: Devices = field(default_factory=Devices)
    refused: dict[int, Refused] = field(default_factory=dict)

    def would_admit(self, job_id: int, group: str, uses: Uses) -> bool:
        """Whether the job could start if nobody else did."""
        return self._refuse(job_id, group, uses) is None

    def admit(self, job_id: int, group: str, uses: Uses) -> bool:
        """Reserve all that the job uses, or nothing."""
        if self._refuse(job_id, group, uses) is not None:
            return False
        rooms = self._rooms(group, uses)
        admit({name: amount for name, amount in uses.items() if name in rooms}, rooms)
        for name, units in self.units(uses).items():
            self.devices.free[name] -= units
        return True

    def units(self, uses: Uses) -> dict[str, int]:
        """How many units of which of our devices a job needs."""
        return {name: amount // MICRO for name, amount in uses.items() if name in self.devices.total}

    def next_at(self) -> datetime | None:
        """When time alone may admit one of those that were refused."""
        return min((found.until for found in self.refused.values() if found.until is not None), default=None)

    def _rooms(self, group: str, uses: Uses) -> dict[str, Room]:
        return {name: self.rooms[name, group] for name in uses if (name, group) in self.rooms}

    def _refuse(self, job_id: int, group: str, uses: Uses) -> Refused | None:
        refused = self.why_not(group, uses)
        if refused is not None:
            self.refused[job_id] = refused
        return refused

    def why_not(self, group: str, uses: Uses) -> Refused | None:
        """What such a job lacks first, as far as this round has given nothing away; None: nothing."""
        for name, asked in uses.items():
            if name in self.devices.total:
                if (refused := self.devices.why_not(name, asked)) is not None:
                    return refused
            elif name in self.devices.elsewhere:
                return Refused("device", name)
        limits = {name: asked for name, asked in uses.items() if self._is_limit(name, group)}
        return why_not(limits, self._rooms(group, uses))

    def _is_limit(self, name: str, group: str) -> bool:
        return (name, group) in self.rooms or name not in self.devices.total
