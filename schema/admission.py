"""May this job start: amounts asked against amounts free. Pure: no database, no clock; amounts in millionths.

What is reserved for one job counts for the next, all of it or nothing: a job that waits holds nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What a limit caps: what is held at once, what begins in any window of so long, what is had in all or a window."""

    RESOURCE = "resource"
    RATE = "rate"
    BUDGET = "budget"


class Account(NamedTuple):
    """Whose use is counted together: all of a limit, `group` '', or that of one group."""

    name: str
    group: str


@dataclass
class Room:
    """What an account may have (`amount`) and has (`used`). `per`: the window as it is stored; `period`: the key of the
    budget's window of now. `frees_at`: when some of it comes back by time alone, as far as that is known."""

    account: Account
    kind: Kind
    amount: int
    used: int = 0
    per: str | None = None
    period: str = ""
    frees_at: datetime | None = None

    @property
    def left(self) -> int:
        """What may still be had; below 0 after overspending."""
        return self.amount - self.used


@dataclass(frozen=True)
class Refused:
    """Why a job may not start now. `code` as in `explain`: `no_such_limit`, `impossible`, `limit` or `device`.

    `until`: when time alone may change that. `passes`: jobs that end will change it, without an operator."""

    code: str
    name: str
    until: datetime | None = None
    passes: bool = False


def refusal(name: str, asked: int, room: Room | None) -> Refused | None:
    """Why `asked` of the limit `name` cannot be had now, or None. A limit of 0 is closed, which is meant to pass."""
    if room is None:
        return Refused("no_such_limit", name)
    if room.amount == 0:
        return Refused("limit", name)
    if asked > room.amount:
        return Refused("impossible", name)
    if asked > room.left:
        return Refused("limit", name, room.frees_at, passes=room.kind is Kind.RESOURCE)
    return None


def why_not(uses: Mapping[str, int], rooms: Mapping[str, Room]) -> Refused | None:
    """What a job that uses so much lacks first: what can never be had, else what comes back last. None: nothing.

    `rooms`: those of the job's accounts that exist, by name of the limit."""
    refused = [found for name, asked in uses.items() if (found := refusal(name, asked, rooms.get(name))) is not None]
    return min(refused, key=_first_to_tell, default=None)


def admit(uses: Mapping[str, int], rooms: Mapping[str, Room]) -> Refused | None:
    """Reserve all that a job uses, or nothing, and say why not."""
    refused = why_not(uses, rooms)
    if refused is None:
        for name, asked in uses.items():
            rooms[name].used += asked
    return refused


def _first_to_tell(refused: Refused) -> tuple[int, float]:
    rank = {"no_such_limit": 0, "impossible": 1}.get(refused.code, 2)
    return rank, -refused.until.timestamp() if refused.until is not None else float("-inf")
