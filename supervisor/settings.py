"""A supervisor's settings: frozen, checked once, impossible values refused. All durations are seconds."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqljobs.schema import values
from sqljobs.schema.durations import parse_duration
from sqljobs.schema.errors import InvalidJob
from sqljobs.supervisor.devices import DeviceRules, parse_devices
from sqljobs.supervisor.liveness import usable_cpus

Duration = float | str | timedelta
HANDLER_REACHED_WITHIN = 30.0
ANSWER_SECONDS = 5.0
MAX_SLOTS = 10_000


@dataclass(frozen=True)
class Settings:
    """See `run` in the contract for the meaning of each."""

    name: str
    slots: int
    heartbeat: float
    ttl: float
    deadline: float
    kill_grace: float
    grace: float
    poll_fast: float
    poll_slow: float
    aging: float
    on_lease_lost: str
    until_idle: bool
    only_types: tuple[str, ...]
    only_groups: tuple[str, ...]
    devices: DeviceRules = field(default_factory=DeviceRules)
    start_method: str = "fork"
    preload: bool = True

    @property
    def answer_seconds(self) -> float:
        """How long one call of the database may keep the loop from its children."""
        return min(ANSWER_SECONDS, max(1.0, self.heartbeat))

    @property
    def reconnect_for(self) -> float:
        """How long a child looks for a lost database to write its end: as long as it may live without its lease."""
        return math.inf if self.on_lease_lost == "keep" else self.deadline


def check_settings(
    *,
    backend: str,
    name: str | None = None,
    slots: int | None = None,
    heartbeat: Duration = 10,
    ttl: Duration = 60,
    deadline: Duration = 40,
    kill_grace: Duration = 5,
    grace: Duration = 30,
    poll: str = "0.05s-2s",
    aging: Duration = 600,
    on_lease_lost: str | None = None,
    until_idle: bool = False,
    only_type: str | Sequence[str] = (),
    only_group: str | Sequence[str] = (),
    device: str | Sequence[str] | Mapping[str, Sequence[str]] = (),
    device_env: str | Sequence[str] | Mapping[str, str] = (),
    start_method: str = "fork",
    preload: bool | None = None,
    no_preload: bool | None = None,
) -> Settings:
    """Settings from flags or keywords; `backend` is the database's kind. Raises `InvalidJob` for impossible ones."""
    fast, slow = _poll(poll)
    values.check_choice("start_method", start_method, ("fork", "spawn"))
    settings = Settings(
        name=values.check_name("name", name if name is not None else socket.gethostname()),
        slots=_slots(slots),
        heartbeat=_positive("heartbeat", heartbeat),
        ttl=_positive("ttl", ttl),
        deadline=_positive("deadline", deadline),
        kill_grace=parse_duration(kill_grace, what="kill_grace"),
        grace=parse_duration(grace, what="grace"),
        poll_fast=fast,
        poll_slow=slow,
        aging=parse_duration(aging, what="aging"),
        on_lease_lost=values.check_choice(
            "on_lease_lost", on_lease_lost or ("keep" if backend == "sqlite" else "kill"), ("keep", "kill")
        ),
        until_idle=until_idle,
        only_types=_names("only_type", only_type),
        only_groups=_names("only_group", only_group),
        devices=parse_devices(device, device_env),
        start_method=start_method,
        preload=_preload(start_method, preload, no_preload),
    )
    needed = settings.deadline + settings.kill_grace + settings.heartbeat
    if needed >= settings.ttl:
        raise InvalidJob(
            f"deadline + kill_grace + heartbeat is {needed:g} s and must be below ttl ({settings.ttl:g} s):"
            " a lease must outlive the children that it stands for"
        )
    return settings


def _preload(start_method: str, preload: bool | None, no_preload: bool | None) -> bool:
    """Both names are taken, that of the flag and the plain one; a fresh interpreter has nothing of what we import."""
    for name, given in (("preload", preload), ("no_preload", no_preload)):
        if given is not None and not isinstance(given, bool):
            raise InvalidJob(f"{name} must be true or false, not {given!r}")
    wanted = preload if no_preload is None else not no_preload
    if preload is not None and wanted is not preload:
        raise InvalidJob(f"preload is {preload} and no_preload is {no_preload}: give one of them")
    if start_method == "spawn" and wanted:
        raise InvalidJob("start_method 'spawn' cannot preload: each job imports the handlers itself; leave preload out")
    return start_method == "fork" and wanted is not False


def _slots(slots: int | None) -> int:
    if slots is None:
        return usable_cpus()
    if isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= MAX_SLOTS:
        raise InvalidJob(f"slots must be a whole number from 1 to {MAX_SLOTS}, not {slots!r}")
    return slots


def _names(what: str, given: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(values.check_name(what, item) for item in ([given] if isinstance(given, str) else given))


def _positive(what: str, value: Duration) -> float:
    seconds = parse_duration(value, what=what)
    if seconds <= 0:
        raise InvalidJob(f"{what} must be above 0")
    return seconds


def _poll(poll: str) -> tuple[float, float]:
    first, dash, second = str(poll).partition("-")
    fast = parse_duration(first, what="poll")
    slow = parse_duration(second, what="poll") if dash else fast
    if not 0 < fast <= slow:
        raise InvalidJob(f"poll must be FAST-SLOW such as 0.05s-2s, not {poll!r}")
    return fast, slow
