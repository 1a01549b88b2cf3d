"""What each group has used of the slots, as one supervisor knows it. Memory only; the time is passed in."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqljobs.supervisor.fair_share import Usage, expected_seconds

Row = tuple[str, float, float, float]

_NOTHING = 1e-3
_LAG_JOBS = 4


@dataclass
class _Entry:
    slot_seconds: float = 0.0
    starts: float = 0.0

    def add(self, slot_seconds: float, starts: float) -> None:
        self.slot_seconds += slot_seconds
        self.starts += starts

    def fade(self, factor: float) -> None:
        self.slot_seconds *= factor
        self.starts *= factor

    def is_nothing(self) -> bool:
        return self.slot_seconds < _NOTHING and self.starts < _NOTHING


class UsageLedger:
    """Use per group, in two accounts. All times are seconds of one clock, the one that dates published rows.

    `own`, which is published: what we ran, halved every `half_life` seconds. `known`, which ranks: what everybody ran;
    it halves too, but not while the group waits with ready work: jobs longer than the half-life would outlive it.
    """

    def __init__(self, half_life: float = 600.0) -> None:
        self._half_life = half_life
        self._now = -math.inf
        self._own: dict[str, _Entry] = {}
        self._known: dict[str, _Entry] = {}
        self._running: dict[int, str] = {}
        self._most_at_once = 0
        self._waiting: dict[str, int] = {}
        self._absorbed: list[Row] = []

    def start(self, job_id: int, group: str, now: float) -> None:
        """Book the start of a job; one already in flight is not booked twice."""
        self._advance(now)
        if job_id not in self._running:
            self._running[job_id] = group
            self._most_at_once = max(self._most_at_once, len(self._running))
            for account in (self._own, self._known):
                account.setdefault(group, _Entry()).add(0.0, 1.0)

    def end(self, job_id: int, now: float) -> None:
        """Book the end of a job; an unknown one is ignored."""
        self._advance(now)
        self._running.pop(job_id, None)

    def rows(self, now: float) -> list[Row]:
        """Return our own use to publish, (group, slot_seconds, starts, as_of), without what decayed to nothing."""
        self._advance(now)
        return [(group, own.slot_seconds, own.starts, self._now) for group, own in sorted(self._own.items())]

    def absorb(self, rows: Iterable[Row]) -> None:
        """Take all that other supervisors have published, in place of the former rows; only what is new counts.

        Call it often against the half-life, also while every slot is busy. A row nobody renews any more fades among
        the former rows as among the present ones, and cancels out.
        """
        present = list(rows)
        dates = [as_of for _, _, _, as_of in present]
        if math.isinf(self._now) and dates:
            self._now = max(dates)
        at = max([self._now, *dates])
        news: dict[str, _Entry] = {}
        for counted, sign in ((present, 1), (self._absorbed, -1)):
            for group, slot_seconds, starts, as_of in counted:
                factor = sign * self._factor(at - as_of)
                news.setdefault(group, _Entry()).add(slot_seconds * factor, starts * factor)
        for group, new in news.items():
            if not new.is_nothing():
                self._known.setdefault(group, _Entry()).add(max(0.0, new.slot_seconds), max(0.0, new.starts))
        self._absorbed = present

    def snapshot(self, now: float, waiting: Mapping[str, int] | None = None) -> dict[str, Usage]:
        """Return the use per group for `rank`.

        `waiting` says which groups have ready work, and their weights; None = as before. If it is never given, all
        use decays, and jobs longer than about a fiftieth of the half-life are shared too evenly.
        """
        self._advance(now)
        if waiting is not None:
            self._keep_together(waiting)
            self._waiting = dict(waiting)
        return self._usage()

    def _usage(self) -> dict[str, Usage]:
        return {group: Usage(entry.slot_seconds, entry.starts) for group, entry in self._known.items()}

    def _advance(self, now: float) -> None:
        passed, self._now = now - self._now, max(now, self._now)
        if passed <= 0 or math.isinf(passed):
            return
        running = Counter(self._running.values())
        factor = self._factor(passed)
        faded = self._half_life / math.log(2) * (1.0 - factor)
        for account, kept in ((self._own, set[str]()), (self._known, self._waiting.keys())):
            for group, entry in list(account.items()):
                if group in kept:
                    entry.add(running[group] * passed, 0.0)
                    continue
                entry.fade(factor)
                entry.add(running[group] * faded, 0.0)
                if entry.is_nothing() and group not in running:
                    del account[group]
                elif account is self._known:
                    # A start that fades while its job runs would make the mean length of a job soar.
                    entry.starts = max(entry.starts, float(running[group]))

    def _factor(self, passed: float) -> float:
        return math.pow(2.0, -max(0.0, passed) / self._half_life)

    def _keep_together(self, waiting: Mapping[str, int]) -> None:
        """Book use to a group that begins to wait, up to the least level of those that waited, and to one far behind.

        A booking is never published: each supervisor makes its own, from the same rows. It books starts too, so that
        the mean length of a job stays what it was.
        """
        usage = self._usage()
        used = {group: usage[group].slot_seconds if group in usage else 0.0 for group in waiting}
        means = [entry.slot_seconds / entry.starts for entry in usage.values() if entry.starts >= _NOTHING]
        allowance = max(self._half_life, (_LAG_JOBS + self._most_at_once) * max(means, default=0.0))
        least = least_allowed(used, waiting, allowance)
        stayed = [max(used[group], least[group]) / waiting[group] for group in waiting if group in self._waiting]
        entry_level = min(stayed, default=0.0)
        length = expected_seconds(usage)
        for group, weight in waiting.items():
            due = least[group] if group in self._waiting else max(least[group], weight * entry_level)
            if due > used[group]:
                missing = due - used[group]
                self._known.setdefault(group, _Entry()).add(missing, missing / length)


def least_allowed(used: Mapping[str, float], weights: Mapping[str, int], allowance: float) -> dict[str, float]:
    """Return per group the slot-seconds that are `allowance` below its part of the common level.

    That level is the mean use per weight, without the groups that lag further.
    """
    inside, level = dict(weights), 0.0
    while inside:
        level = sum(used[group] for group in inside) / sum(inside.values())
        near = {group: weight for group, weight in inside.items() if used[group] >= weight * level - allowance}
        if len(near) == len(inside):
            break
        inside = near
    return {group: weight * level - allowance for group, weight in weights.items()}
