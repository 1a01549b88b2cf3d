"""Devices of one supervisor, such as GPUs: what was declared, and which job has which units. Pure.

A unit has at most one job; whether what ran on it is really gone is for others to know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.renderings import shown
from sqljobs.schema.values import check_name, nearest

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The marks of a job's processes, and settings of ours.
_RESERVED = "SQLJOBS_"
_DEVICE_FORM = "write NAME=UNIT,UNIT such as gpu=0,1"
_VARIABLE_FORM = "write NAME=VARIABLE such as gpu=CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class DeviceRules:
    """What a supervisor has. `units`: by device, in the order in which they are given out; `variables`: where a job's
    process finds those that it has."""

    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def published(self) -> dict[str, Any] | None:
        """As in the supervisor's row: `{"gpu": {"units": ["0", "1"]}}`; None for no devices."""
        return {name: {"units": list(units)} for name, units in self.units.items()} or None

    def environment(self, assigned: Mapping[str, Iterable[str]]) -> dict[str, str]:
        """The environment variables of a job that has these units."""
        told = {name: units for name, units in assigned.items() if name in self.variables}
        return {self.variables[name]: ",".join(units) for name, units in told.items()}


class DevicePool:
    """Which units are free, and which job has the others."""

    def __init__(self, rules: DeviceRules) -> None:
        self.rules = rules
        self._free = {name: list(units) for name, units in rules.units.items()}
        self._taken: dict[int, dict[str, tuple[str, ...]]] = {}

    def free(self, name: str) -> int:
        """How many units of this device no job has; 0 for a device that is not here."""
        return len(self._free.get(name, ()))

    def is_holder(self, job_id: int) -> bool:
        """Whether this job has units, of an attempt that may not be gone."""
        return job_id in self._taken

    def take(self, job_id: int, wanted: Mapping[str, int]) -> dict[str, tuple[str, ...]] | None:
        """Give the job so many units of each device, the first free ones of those declared; {} where none is wanted.

        None, and nothing is taken, when there are not enough, or when the job still has those of an earlier attempt."""
        if any(not 0 < number <= self.free(name) for name, number in wanted.items()) or job_id in self._taken:
            return None
        given = {name: tuple(self._free[name][:number]) for name, number in wanted.items()}
        for name, units in given.items():
            del self._free[name][: len(units)]
        if given:
            self._taken[job_id] = given
        return given

    def give_back(self, job_id: int) -> None:
        """All units of this job are free again. A job that has none changes nothing."""
        for name, units in self._taken.pop(job_id, {}).items():
            free = {*self._free[name], *units}
            self._free[name] = [unit for unit in self.rules.units[name] if unit in free]


def parse_devices(device: object = (), device_env: object = ()) -> DeviceRules:
    """The rules from flags or keywords: text `gpu=0,1`, several such, or `{"gpu": ["0", "1"]}`; `gpu=VARIABLE` alike.

    Raises `InvalidJob` in one line for what has another form, a unit or a name given twice, a name that no variable can
    have, and a variable of a device that is not declared."""
    units, variables = units_by_name(device), variables_by_name(device_env)
    for name, variable in variables.items():
        if name not in units:
            raise InvalidJob(
                f"device_env: there is no device {shown(name)}{nearest(name, units)}: declare it with --device"
                f" {name}=UNIT,UNIT, or leave it out"
            )
        if other := next((one for one in units if one != name and variables.get(one) == variable), None):
            raise InvalidJob(f"device_env: {variable} cannot be the variable of both {shown(name)} and {shown(other)}")
    return DeviceRules(units, variables)


def units_by_name(device: object) -> dict[str, tuple[str, ...]]:
    """One layer of declarations: flags, or a file. Raises `InvalidJob`."""
    return {name: _units(name, given) for name, given in _pairs("device", device, _DEVICE_FORM).items()}


def variables_by_name(device_env: object) -> dict[str, str]:
    """One layer of variables: flags, or a file. Raises `InvalidJob`."""
    return {name: _variable(name, given) for name, given in _pairs("device_env", device_env, _VARIABLE_FORM).items()}


def _pairs(what: str, given: object, form: str) -> dict[str, object]:
    if isinstance(given, Mapping):
        return {check_name(f"{what}: name", name): value for name, value in given.items()}
    found: dict[str, object] = {}
    for text in [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else [given]:
        if not isinstance(text, str) or "=" not in text:
            raise InvalidJob(f"{what}: {form}, not {shown(text)}")
        name, _, value = text.partition("=")
        check_name(f"{what}: name", name)
        if name in found:
            raise InvalidJob(f"{what}: {shown(name)} is given twice: {form}")
        found[name] = value
    return found


def _units(name: str, given: object) -> tuple[str, ...]:
    listed = given.split(",") if isinstance(given, str) else given
    if not isinstance(listed, list | tuple):
        raise InvalidJob(f"device {shown(name)}: units must be a list such as ['0', '1'], not {shown(listed)}")
    if not listed:
        raise InvalidJob(f"device {shown(name)} has no units: {_DEVICE_FORM}")
    units = tuple(_unit(name, unit) for unit in listed)
    for place, unit in enumerate(units):
        if unit in units[:place]:
            raise InvalidJob(f"device {shown(name)}: unit {shown(unit)} is given twice: each is for one job at a time")
    return units


def _unit(name: str, given: object) -> str:
    number = isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 10**9
    unit = check_name(f"device {shown(name)}: unit", str(given) if number else given)
    if "," in unit:
        raise InvalidJob(f"device {shown(name)}: unit {shown(unit)} has a comma, which stands between units")
    return unit


def _variable(name: str, given: object) -> str:
    if not isinstance(given, str) or not _VARIABLE.fullmatch(given):
        raise InvalidJob(f"device_env {shown(name)}: {shown(given)} is no name of an environment variable")
    if given.startswith(_RESERVED):
        raise InvalidJob(f"device_env {shown(name)}: {shown(given)} is a variable of sqljobs itself: choose another")
    return given
