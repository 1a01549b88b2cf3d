"""Fair share in simulated time: supervisors, groups with endless work, and a clock that jumps from end to end."""

import heapq
from collections.abc import Callable, Mapping
from random import Random

from sqljobs.supervisor.fair_share import Candidate, Held, rank
from sqljobs.supervisor.usage import UsageLedger

PUBLISH_EVERY = 10.0
Length = Callable[[str], float]
Present = Callable[[str, float], bool]


class Simulation:
    """Supervisors with some slots each, groups with endless work while they are present, and a clock that jumps.

    `spans`: of each job that has ended its group, start and end."""

    def __init__(
        self, weights: Mapping[str, int], slots: list[int], length: Length, present: Present = lambda *_: True
    ) -> None:
        self.weights, self.slots, self.length, self.present = weights, slots, length, present
        self.ledgers = [UsageLedger() for _ in slots]
        self.now, self.next_id, self.publish_at = 0.0, 1, PUBLISH_EVERY
        self.running: dict[int, tuple[str, float, int]] = {}
        self.ends: list[tuple[float, int]] = []
        self.started: list[tuple[float, str]] = []
        self.spans: list[tuple[str, float, float]] = []
        self.slot_time = dict.fromkeys(weights, 0.0)

    def run(self, decisions: int, *, staggered: bool = False) -> "Simulation":
        rnd = Random(1)
        while len(self.started) < decisions:
            self.turn(rnd if staggered and len(self.started) < sum(self.slots) else None)
        for group, since, _ in self.running.values():
            self.slot_time[group] += self.now - since
        return self

    def turn(self, rnd: Random | None = None) -> None:
        """Each supervisor claims; then the clock goes on to what happens next."""
        for place in range(len(self.slots)):
            self.claim(place, rnd)
        self.step()

    def claim(self, place: int, rnd: Random | None) -> None:
        free = self.slots[place] - sum(at == place for _, _, at in self.running.values())
        if free == 0:
            return
        groups = [group for group in self.weights if self.present(group, self.now)]
        ready = {}
        for group in groups:
            for _ in range(free):
                ready[self.next_id] = Candidate(self.next_id, group, self.weights[group], 0, self.now)
                self.next_id += 1
        held = [Held(group, self.now - since) for group, since, _ in self.running.values()]
        usage = self.ledgers[place].snapshot(self.now, {group: self.weights[group] for group in groups})
        ids = rank(ready.values(), held, usage, slots_free=free)
        assert len(ids) == (free if ready else 0), "a slot idles though a job may run"
        for job_id in ids:
            group = ready[job_id].group
            self.ledgers[place].start(job_id, group, self.now)
            self.running[job_id] = (group, self.now, place)
            self.started.append((self.now, group))
            seconds = self.length(group) * (rnd.random() if rnd else 1.0)
            heapq.heappush(self.ends, (self.now + seconds, job_id))

    def step(self) -> None:
        end = self.ends[0][0] if self.ends else self.now + 1.0
        if len(self.slots) > 1 and self.publish_at < end:
            self.now, self.publish_at = self.publish_at, self.publish_at + PUBLISH_EVERY
            rows = [ledger.rows(self.now) for ledger in self.ledgers]
            for place, ledger in enumerate(self.ledgers):
                ledger.absorb(row for other, theirs in enumerate(rows) if other != place for row in theirs)
            return
        self.now = end
        while self.ends and self.ends[0][0] <= end:
            _, job_id = heapq.heappop(self.ends)
            group, since, place = self.running.pop(job_id)
            self.ledgers[place].end(job_id, end)
            self.spans.append((group, since, end))
            self.slot_time[group] += end - since

    def worst_error(self) -> float:
        """Return the largest relative distance of a group's slot time from its share by weight."""
        total, weight = sum(self.slot_time.values()), sum(self.weights.values())
        return max(abs(self.slot_time[g] / total * weight / w - 1.0) for g, w in self.weights.items())

    def order_after(self, since: float) -> str:
        return "".join(group for at, group in self.started if at >= since)
