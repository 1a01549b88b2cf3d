"""Who runs next: pure decisions over the ready jobs, the jobs in flight and the groups' use. No clock, no database."""

import heapq
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

DEFAULT_JOB_SECONDS = 1.0
SHORTEST_JOB_SECONDS = 1e-3
FEWEST_STARTS = 1e-6
_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Candidate:
    """A ready job. `created_at` in seconds since the epoch, `weight` at least 1, a higher `priority` runs earlier.

    `lane`: the same for jobs of a group that use the same."""

    job_id: int
    group: str
    weight: int
    priority: int
    created_at: float
    lane: Hashable = None


@dataclass(frozen=True)
class Held:
    """One job in flight on any supervisor, and the seconds since it was claimed."""

    group: str
    elapsed: float


@dataclass(frozen=True)
class Usage:
    """What a group has used: slot-seconds, time in flight included, and starts; both forgotten alike."""

    slot_seconds: float
    starts: float


@dataclass(frozen=True)
class _Group:
    name: str
    weight: int
    jobs: list[Candidate]


def order_in_group(candidates: Iterable[Candidate], aging: float) -> list[Candidate]:
    """Sort jobs as within one group: by creation, a priority point counting as `aging` seconds earlier, then by id.

    `aging` 0 is strict priority: higher first, then creation, then id.
    """
    if aging == 0:
        return sorted(candidates, key=lambda job: (-job.priority, job.created_at, job.job_id))
    return sorted(candidates, key=lambda job: (job.created_at - job.priority * aging, job.job_id))


def rank(
    candidates: Iterable[Candidate],
    held: Iterable[Held],
    usage: Mapping[str, Usage],
    *,
    slots_free: int,
    aging: float = 600.0,
    weights: Mapping[str, int] | None = None,
) -> list[int]:
    """Return the ids of the jobs to claim, in order, at most `slots_free`; fewer only if there are no more jobs.

    `weights` overrules the weight of a group's head job.
    """
    groups = _grouped(candidates, aging, weights or {})
    if slots_free <= 0 or not groups:
        return []
    in_flight = list(held)
    used = any(entry.slot_seconds > 0 or entry.starts > 0 for entry in usage.values())
    if in_flight or used:
        return _by_least_use(groups, in_flight, usage, slots_free)
    return _by_quota(groups, slots_free)


def group_weights(
    candidates: Iterable[Candidate], aging: float, weights: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the weight of each group with ready work, as `rank` sees it."""
    return {group.name: group.weight for group in _grouped(candidates, aging, weights or {})}


def expected_seconds(usage: Mapping[str, Usage]) -> float:
    """Return the mean length of a job in seconds over all `usage`; a small positive default if nothing ever ran."""
    starts = sum(entry.starts for entry in usage.values())
    if starts < FEWEST_STARTS:
        return DEFAULT_JOB_SECONDS
    return max(SHORTEST_JOB_SECONDS, sum(entry.slot_seconds for entry in usage.values()) / starts)


def _grouped(candidates: Iterable[Candidate], aging: float, weights: Mapping[str, int]) -> list[_Group]:
    by_name: dict[str, list[Candidate]] = {}
    for job in order_in_group(candidates, aging):
        by_name.setdefault(job.group, []).append(job)
    return [_Group(name, weights.get(name, jobs[0].weight), jobs) for name, jobs in by_name.items()]


def _by_quota(groups: list[_Group], slots: int) -> list[int]:
    """The rounding rule for an idle system; jobs of the groups alternate so that a claim cut short is fair too."""
    groups = sorted(groups, key=lambda group: (-group.weight, group.jobs[0].created_at, group.name))
    if len(groups) > slots:
        return [group.jobs[0].job_id for group in groups[:slots]]
    share = quotas({group.name: (group.weight, len(group.jobs)) for group in groups}, slots)
    turns = sorted(
        (Fraction(2 * nth + 1, group.weight), place, job.job_id)
        for place, group in enumerate(groups)
        for nth, job in enumerate(group.jobs[: share[group.name]])
    )
    return [job_id for _, _, job_id in turns]


def quotas(groups: Mapping[str, tuple[int, int]], slots: int) -> dict[str, int]:
    """Divide `slots` among groups, {name: (weight, ready jobs)}, of which there are at most `slots`."""
    total = sum(weight for weight, _ in groups.values())
    quota = {name: Fraction(slots * weight, total) for name, (weight, _) in groups.items()}
    ready = {name: jobs for name, (_, jobs) in groups.items()}
    share = {name: min(ready[name], max(1, int(quota[name] + _HALF))) for name in groups}

    def tie(name: str) -> tuple[int, str]:
        return (-groups[name][0], name)

    while sum(share.values()) > slots:
        name = min((n for n in share if share[n] > 1), key=lambda n: (quota[n] - share[n], *tie(n)))
        share[name] -= 1
    while sum(share.values()) < min(slots, sum(ready.values())):
        name = min((n for n in share if share[n] < ready[n]), key=lambda n: (share[n] - quota[n], *tie(n)))
        share[name] += 1
    return share


def _by_least_use(groups: list[_Group], held: list[Held], usage: Mapping[str, Usage], slots: int) -> list[int]:
    """Give each slot to the group that has had least for its weight, counting what is in flight and given here."""
    length = expected_seconds(usage)
    charge = {name: entry.slot_seconds for name, entry in usage.items()}
    for job in held:
        charge[job.group] = charge.get(job.group, 0.0) + max(0.0, length - job.elapsed)
    heap = [
        (charge.get(group.name, 0.0) / group.weight, -group.weight, group.jobs[0].created_at, group.name, 0, group)
        for group in groups
    ]
    heapq.heapify(heap)
    chosen: list[int] = []
    while heap and len(chosen) < slots:
        _, weight, _, name, given, group = heap[0]
        chosen.append(group.jobs[given].job_id)
        given += 1
        if given == len(group.jobs):
            heapq.heappop(heap)
        else:
            level = (charge.get(name, 0.0) + given * length) / group.weight
            heapq.heapreplace(heap, (level, weight, group.jobs[given].created_at, name, given, group))
    return chosen
