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
        self._waiting: dict[str, int] = {}
        self._published: list[Row] = []
        self._counted: list[Row] = []

    def start(self, job_id: int, group: str, now: float) -> None:
        """Book the start of a job; one already in flight is not booked twice."""
        self._advance(now)
        if job_id not in self._running:
            self._running[job_id] = group
            for account in (self._own, self._known):
                account.setdefault(group, _Entry()).add(0.0, 1.0)

    def end(self, job_id: int, now: float) -> None:
        """Book the end of a job; an unknown one is ignored."""
        self._advance(now)
        self._running.pop(job_id, None)

    def absorb(self, rows: Iterable[Row]) -> None:
        """Take all that other supervisors have published, in place of the former rows: only what is new counts."""
        self._published = list(rows)

    def rows(self, now: float) -> list[Row]:
        """Return our own use to publish, (group, slot_seconds, starts, as_of), without what decayed to nothing."""
        self._advance(now)
        return [(group, own.slot_seconds, own.starts, self._now) for group, own in sorted(self._own.items())]

    def snapshot(self, now: float, waiting: Mapping[str, int] | None = None) -> dict[str, Usage]:
        """Return the use per group for `rank`.

        `waiting` says which groups have ready work, and their weights; None = as before. Without it all use decays,
        and jobs longer than about a tenth of the half-life are shared too evenly.
        """
        self._advance(now)
        self._count_published()
        if waiting is not None:
            self._keep_together(dict(waiting))
        return {group: Usage(entry.slot_seconds, entry.starts) for group, entry in self._known.items()}

    def _advance(self, now: float) -> None:
        passed, self._now = now - self._now, max(now, self._now)
        if passed <= 0 or math.isinf(passed):
            return
        running = Counter(self._running.values())
        factor = self._factor(passed)
        faded = self._half_life / math.log(2) * (1.0 - factor)
        for account, kept in ((self._own, {}), (self._known, self._waiting)):
            for group in list(account):
                entry = account[group]
                if group in kept:
                    entry.add(running[group] * passed, 0.0)
                    continue
                entry.fade(factor)
                entry.add(running[group] * faded, 0.0)
                if entry.is_nothing() and group not in running:
                    del account[group]

    def _factor(self, passed: float) -> float:
        return math.pow(2.0, -max(0.0, passed) / self._half_life)

    def _count_published(self) -> None:
        """Add what was published since we last looked. Rows of the gone just fade on both sides and cancel out."""
        if self._published is self._counted:
            return
        news: dict[str, _Entry] = {}
        for rows, sign in ((self._published, 1), (self._counted, -1)):
            for group, slot_seconds, starts, as_of in rows:
                factor = sign * self._factor(self._now - as_of)
                news.setdefault(group, _Entry()).add(slot_seconds * factor, starts * factor)
        for group, new in news.items():
            if not new.is_nothing():
                self._known.setdefault(group, _Entry()).add(max(0.0, new.slot_seconds), max(0.0, new.starts))
        self._counted = self._published

    def _keep_together(self, waiting: dict[str, int]) -> None:
        """Book use to a group that begins to wait, up to the least level of those that waited, and to one far behind.

        A booking is never published: each supervisor makes its own, from the same rows.
        """
        used = {group: self._known[group].slot_seconds if group in self._known else 0.0 for group in waiting}
        means = [entry.slot_seconds / entry.starts for g, entry in self._known.items() if g in waiting and entry.starts]
        level, allowance = common_level(used, waiting, max([self._half_life, *(_LAG_JOBS * mean for mean in means)]))
        due = {group: max(used[group], weight * level - allowance) for group, weight in waiting.items()}
        entry_level = min((due[group] / waiting[group] for group in waiting if group in self._waiting), default=0.0)
        length = expected_seconds(
            {group: Usage(entry.slot_seconds, entry.starts) for group, entry in self._known.items()}
        )
        for group, weight in waiting.items():
            missing = (due[group] if group in self._waiting else max(due[group], weight * entry_level)) - used[group]
            if missing > 0:
                self._known.setdefault(group, _Entry()).add(missing, missing / length)
        self._waiting = waiting


def common_level(used: Mapping[str, float], weights: Mapping[str, int], allowance: float) -> tuple[float, float]:
    """Return the mean use per weight of the groups at most `allowance` slot-seconds below that mean, and `allowance`."""
    inside = dict(weights)
    while inside:
        level = sum(used[group] for group in inside) / sum(inside.values())
        ahead = {group: weight for group, weight in inside.items() if used[group] >= weight * level - allowance}
        if len(ahead) == len(inside):
            return level, allowance
        inside = ahead
    return 0.0, allowance
