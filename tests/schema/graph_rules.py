"""What holds of a graph, and what follows from it by itself: one half of the model, graph_model.py is the other.

It keeps no counter and no flag that states can tell, and shares no code with the product."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

FINAL = frozenset({"done", "failed", "cancelled"})


Event = tuple[str, int]
Closing = tuple[str, int | None]  # reason and culprit of a job that was cancelled because of another


@dataclass
class Job:
    """What is remembered of a job: what happened to it, and nothing that others tell."""

    id: int
    container: bool
    parent: int | None
    edges: dict[int, str]
    delayed: bool
    key: str | None
    first_attempts: int
    attempts_allowed: int
    awaits_child: bool = False
    state: str = "blocked"
    reason: str | None = None
    culprit: int | None = None
    result: Any = None
    own_result: Any = None
    attempt: int = 0
    last_cause: str | None = None
    was_opened: bool = False  # a container that was `waiting` once
    cancel_requested: bool = False

    @property
    def over(self) -> bool:
        return self.state in FINAL

    @property
    def good(self) -> bool:
        return self.state == "done" or self.reason == "not_needed"

    @property
    def started(self) -> bool:
        """Claimed once, or opened: what it waited for is not asked again."""
        return self.was_opened if self.container else self.attempt > 0

    def end(self, state: str, reason: str | None, culprit: int | None, result: Any = None) -> None:
        self.state, self.reason, self.culprit, self.result = state, reason, culprit, result


@dataclass
class Graph:
    """All jobs, and the one thing that they do by themselves: settle.

    Where several things become certain in one move, any may be said to have come first: `seen` tells what another
    telling of the same story chose for the jobs that it closed. What it chose is checked (`unfounded`)."""

    jobs: dict[int, Job] = field(default_factory=dict)
    seen: Mapping[int, Closing] = field(default_factory=dict)
    closed: list[Job] = field(default_factory=list)  # by the last move
    born: frozenset[int] = frozenset()  # in the last move

    def snapshot(self) -> dict[int, tuple[str, str | None, int | None, Any]]:
        """(state, reason, culprit, result) of every job."""
        return {job.id: (job.state, job.reason, job.culprit, job.result) for job in self.jobs.values()}

    # Families.

    def children(self, job: Job) -> list[Job]:
        return [self.jobs[i] for i in sorted(self.jobs) if self.jobs[i].parent == job.id]

    def open_children(self, job: Job) -> list[Job]:
        return [child for child in self.children(job) if not child.over]

    def ancestors(self, job: Job) -> list[Job]:
        if job.parent is None:
            return []
        parent = self.jobs[job.parent]
        return [parent, *self.ancestors(parent)]

    def holds_others(self, job: Job) -> bool:
        """A container, or a job that has spawned and whose own part went well."""
        return job.container or (job.last_cause == "done" and bool(self.children(job)))

    def leaves(self, job: Job) -> Iterator[Job]:
        for child in self.children(job):
            if not self.holds_others(child):
                yield child
            yield from self.leaves(child)

    # What holds of a job, by the ends of those that it waits for.

    def upstreams(self, job: Job, kind: str) -> list[Job]:
        return [self.jobs[up] for up, how in job.edges.items() if how == kind]

    def gated(self, job: Job) -> bool:
        parent = self.jobs.get(job.parent or 0)
        return parent is not None and parent.container and parent.state == "blocked"

    def waits(self, job: Job) -> bool:
        well = all(up.good for up in self.upstreams(job, "ok"))
        over = all(up.over for kind in ("any", "not_ok") for up in self.upstreams(job, kind))
        return self.gated(job) or not (job.started or (well and over))

    def broken(self, job: Job) -> list[Job]:
        return [up for up in self.upstreams(job, "ok") if up.over and not up.good and not job.started]

    def pointless(self, job: Job) -> bool:
        awaited = self.upstreams(job, "not_ok")
        return bool(awaited) and all(up.good for up in awaited)

    def own_closings(self, job: Job) -> list[Closing]:
        culprits = [up.culprit if up.reason == "dependency" else up.id for up in self.broken(job)]
        unneeded: list[Closing] = [("not_needed", None)] if self.pointless(job) else []
        return [*(("dependency", culprit) for culprit in culprits), *unneeded]

    def in_circle(self, new: Mapping[int, Job], *, every_edge: bool = False) -> bool:
        """Whether one of the `new` jobs could not begin, or end, before it has itself. A member begins after its
        container has, which ends after the member. What has started or ended waits for no edge any more; with
        `every_edge` they count like others."""
        jobs = {**self.jobs, **new}
        after: dict[Event, set[Event]] = {}
        for job in jobs.values():
            settled = job.started or job.over
            begin, end = ("begin", job.id), ("end", job.id)
            after.setdefault(begin, set()).update(("end", up) for up in job.edges if every_edge or not settled)
            after.setdefault(end, set()).add(begin)
            if job.parent is not None:
                after.setdefault(("end", job.parent), set()).add(end)
                if jobs[job.parent].container and not job.over:
                    after[begin].add(("begin", job.parent))
        return any(("begin", i) in _all_behind(after, ("begin", i)) for i in new)

    # Settling: look at each job until nothing changes.

    def settle(self, born: Collection[int] = ()) -> None:
        self.closed, self.born = [], frozenset(born)
        while any(self._look_at(self.jobs[i]) for i in sorted(self.jobs)):
            continue

    def _look_at(self, job: Job) -> bool:
        before = job.state
        if before in ("scheduled", "ready") and not job.started and (self.waits(job) or self.pointless(job)):
            job.state = "blocked"
        if job.state == "blocked":
            closings = self.own_closings(job)
            if closings:
                self._close(job, closings[0])
            elif not self.waits(job):
                self._unblock(job)
        awaits = job.awaits_child and not self.children(job)
        if job.state == "waiting" and not self.open_children(job) and not awaits:
            self.roll_up(job)
        return job.state != before

    def _unblock(self, job: Job) -> None:
        if job.container:
            job.state, job.was_opened = "waiting", True
        else:
            job.state = "scheduled" if job.delayed else "ready"

    def _close(self, job: Job, closing: Closing) -> None:
        assert job.state == "blocked"
        reason, culprit = self.seen.get(job.id, closing)
        job.end("cancelled", reason, culprit)
        self.closed.append(job)
        for child in self.open_children(job):
            self._close(child, (reason, culprit))

    def roll_up(self, job: Job) -> None:
        children = self.children(job)
        failed = [child.id for child in children if child.state == "failed"]
        missed = [child.id for child in children if child.state == "cancelled" and not child.good]
        ends = [child.state for child in children]
        counts = {state: ends.count(state) for state in ("done", "failed", "cancelled")}
        result = counts if job.container else job.own_result
        if failed:
            job.end("failed", "children", failed[0], result)
        elif job.cancel_requested:
            job.end("cancelled", "cancelled", None, result)
        elif missed:
            job.end("cancelled", "children", missed[0], result)
        else:
            job.end("done", None, None, result)

    def unfounded(self) -> list[str]:
        """Closings of the last move, as `seen` had them, that nothing in the end gives a reason for."""
        return [
            f"{job.id} closed as {job.reason}, {job.culprit}, which can be {sorted(self.may_close(job), key=str)}"
            for job in self.closed
            if (job.reason, job.culprit) not in self.may_close(job)
        ]

    def may_close(self, job: Job) -> set[Closing]:
        own = self.own_closings(job)
        if job.id in self.born and any(up.id not in self.born for up in self.broken(job)):
            own = [closing for closing in own if closing[0] == "dependency"]  # known at birth: it says more
        parent = self.jobs.get(job.parent or 0)
        return {*own, (parent.reason or "", parent.culprit)} if parent in self.closed and parent else set(own)


def _all_behind(after: Mapping[Event, set[Event]], event: Event) -> set[Event]:
    """All that must come before `event`."""
    found: set[Event] = set()
    left = [event]
    while left:
        fresh = after.get(left.pop(), set()) - found
        found |= fresh
        left += fresh
    return found
