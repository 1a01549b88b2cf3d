"""What a run of the demo says in figures: costs, mishaps, shares. Pure: it reads JobInfo objects, no database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqljobs.demo.timeline import TimelineAttempt

if TYPE_CHECKING:
    from sqljobs import JobInfo
    from sqljobs.schema.job_info import AttemptInfo

MERGE = "merge"
"""The name and the group of the job that adds up all others."""


@dataclass(frozen=True)
class Cost:
    """What one job took over all its attempts: seconds of CPU and of wall time, bytes at the peak."""

    id: int
    name: str
    group: str
    state: str
    files: int | None
    lines: int | None
    cpu_seconds: float
    seconds: float
    max_rss_bytes: int | None
    attempts: int


@dataclass(frozen=True)
class Mishap:
    """One failed attempt: what happened, what the queue did about it, and whether the next attempt was `done`."""

    id: int
    name: str
    attempt: int
    cause: str
    what: str
    handled: str
    mended: bool


@dataclass(frozen=True)
class Share:
    """One group: the share of slot time it was promised, and what it held while every group had work waiting.

    `held` is None when no such time was. `ended`: seconds from the first start to its last end."""

    group: str
    weight: int
    jobs: int
    promised: float
    held: float | None
    slot_seconds: float
    ended: float


def name_of(info: JobInfo) -> str:
    """The part that a job indexes, or `merge`."""
    return str((info.args or {}).get("name", MERGE))


def measure(info: JobInfo) -> Cost:
    """Add up the attempts of one job."""
    result: dict[str, Any] = info.result if isinstance(info.result, dict) else {}
    peaks = [attempt.max_rss_bytes for attempt in info.attempts if attempt.max_rss_bytes is not None]
    return Cost(
        id=info.id,
        name=name_of(info),
        group=info.group,
        state=info.state,
        files=result.get("files"),
        lines=result.get("lines"),
        cpu_seconds=sum(attempt.cpu_seconds or 0.0 for attempt in info.attempts),
        seconds=sum(ran_seconds(attempt) for attempt in info.attempts),
        max_rss_bytes=max(peaks, default=None),
        attempts=len(info.attempts),
    )


def ran_seconds(attempt: AttemptInfo) -> float:
    """How long the handler ran; 0 for an attempt that never reached it."""
    if attempt.started_at is None or attempt.ended_at is None:
        return 0.0
    return max(0.0, (attempt.ended_at - attempt.started_at).total_seconds())


def span(attempt: AttemptInfo) -> tuple[float, float]:
    """When an attempt took its slot, at the claim, and when it ended, in seconds since the epoch."""
    ended = attempt.ended_at or attempt.claimed_at
    return attempt.claimed_at.timestamp(), max(attempt.claimed_at, ended).timestamp()


def timeline_of(infos: Iterable[JobInfo]) -> list[TimelineAttempt]:
    """All attempts of these jobs, in seconds since the first of them began."""
    spans = [(info, attempt, *span(attempt)) for info in infos for attempt in info.attempts]
    zero = min((began for _, _, began, _ in spans), default=0.0)
    return [
        TimelineAttempt(
            name=name_of(info),
            group=info.group,
            weight=info.weight,
            attempt=attempt.attempt,
            cause=str(attempt.cause or "open"),
            start=began - zero,
            end=ended - zero,
        )
        for info, attempt, began, ended in spans
    ]


def mishaps_of(info: JobInfo) -> list[Mishap]:
    """The failed attempts of one job, each with what followed it."""
    found = []
    for place, attempt in enumerate(info.attempts):
        if attempt.cause in (None, "done"):
            continue
        if attempt.cause == "error":
            what = "raised " + ((attempt.error or "").strip().splitlines() or ["an error"])[-1]
        elif attempt.signal:
            what = f"lost its process to {attempt.signal}"
        else:
            what = f"ended as {attempt.cause}"
        later = info.attempts[place + 1 : place + 2]
        mended = bool(later) and later[0].cause == "done"
        if later:
            wait = max(0.0, span(later[0])[0] - span(attempt)[1])
            handled = f"attempt {later[0].attempt} began {wait:.2f} s later and ended {later[0].cause}"
        else:
            handled = f"the job is {info.state}"
        found.append(Mishap(info.id, name_of(info), attempt.attempt, str(attempt.cause), what, handled, mended))
    return found


def fair_shares(attempts: Sequence[TimelineAttempt]) -> list[Share]:
    """How the slot time was shared among the groups, heaviest first; the merge, which runs alone, left out."""
    groups: dict[str, list[TimelineAttempt]] = {}
    for attempt in attempts:
        if attempt.group != MERGE:
            groups.setdefault(attempt.group, []).append(attempt)
    # A group has work waiting until its last job starts; the shortest such time is the window for all.
    window = min((max(a.start for a in members) for members in groups.values()), default=0.0)
    held = {group: sum(max(0.0, min(a.end, window) - a.start) for a in members) for group, members in groups.items()}
    weights = {group: members[0].weight for group, members in groups.items()}
    in_window = sum(held.values())
    return [
        Share(
            group=group,
            weight=weights[group],
            jobs=len({a.name for a in members}),
            promised=weights[group] / sum(weights.values()),
            held=held[group] / in_window if in_window > 0 else None,
            slot_seconds=sum(a.end - a.start for a in members),
            ended=max(a.end for a in members),
        )
        for group, members in sorted(groups.items(), key=lambda item: (-weights[item[0]], item[0]))
    ]


@dataclass(frozen=True)
class Summary:
    """All that the demo shows at its end. `seconds`: wall time of the whole run; `merge_id`: the last job."""

    path: str
    database: str
    slots: int
    seconds: float
    merge_id: int
    found: dict[str, Any] | None
    costs: list[Cost]
    mishaps: list[Mishap]
    fair_share: list[Share]
    picture: str

    @property
    def all_done(self) -> bool:
        """Whether every job ended `done`."""
        return all(cost.state == "done" for cost in self.costs)

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {"all_done": self.all_done, "jobs": len(self.costs), **asdict(self)}
