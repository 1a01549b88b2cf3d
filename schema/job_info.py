"""One job as people and programs see it: the fields of `show --json`. Plain values, no database."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any

from sqljobs.schema.durations import format_time

# JSON of the user's making: shown as it is, 1.0 stays 1.0.
USERS_OWN = frozenset({"args", "result"})


@dataclass(frozen=True)
class StateReason:
    """Why a job is in its state: a code, a text, and where they exist the job and the time it is about."""

    code: str
    text: str | None = None
    job_id: int | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Dependency:
    """One job that this one waits for, and its state now (None: pruned)."""

    id: int
    kind: str
    state: str | None


@dataclass(frozen=True)
class ChildCounts:
    """Members of a container by how they ended."""

    done: int
    failed: int
    cancelled: int
    open: int


@dataclass(frozen=True)
class Progress:
    """What a running job last said of itself."""

    done: float
    total: float | None
    note: str | None


@dataclass(frozen=True)
class AttemptInfo:
    """One try. `exit_code` to `max_rss_bytes` are the supervisor's, written after it has reaped the child."""

    attempt: int
    cause: str | None
    supervisor: str
    pid: int | None
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    signal: str | None
    cpu_seconds: float | None
    max_rss_bytes: int | None
    error: str | None
    stack_dump: str | None
    log_tail: str | None
    used: Any
    spent: Any


@dataclass(frozen=True)
class JobInfo:
    """All that the rows say of one job. Times are aware UTC, `timeout` is in seconds, `memory` in bytes."""

    id: int
    type: str
    state: str
    reason: StateReason | None
    args: Any
    result: Any
    error: str | None
    attempt: int
    max_attempts: int
    group: str
    weight: int
    priority: int
    key: str | None
    container: bool
    parent: int | None
    children: tuple[int, ...]
    child_counts: ChildCounts
    after: tuple[Dependency, ...]
    run_after: datetime | None
    timeout: float
    memory: int | None
    uses: Any
    spent: Any
    devices: Any
    progress: Progress | None
    lease_owner: str | None
    lease_expires: datetime | None
    heartbeat_at: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempts: tuple[AttemptInfo, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as plain JSON values: times as `2026-11-29T12:00:00.000000Z`, absent as None."""
        plain = as_plain(self)
        assert isinstance(plain, dict)
        return plain


def as_plain(value: Any) -> Any:
    """Dataclasses, tuples and times as what `json.dumps` takes; whole seconds as integers."""
    if is_dataclass(value) and not isinstance(value, type):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: item if name in USERS_OWN else as_plain(item) for name, item in named}
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, (tuple, list)):
        return [as_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: as_plain(item) for name, item in value.items()}
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
