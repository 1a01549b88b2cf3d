"""What graphs mean, said as plainly as it can be: a pure model that the real transactions are compared with.

Always quiescent: each operation settles everything that follows, or is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tests.schema.graph_operators import IN_FLIGHT, REFUSED, Operators, Refused
from tests.schema.graph_rules import Job

GIVEN_BACK = {"snoozed": "scheduled", "interrupted": "ready", "lease_lost": "ready"}
FATAL = frozenset({"fail", "bad_args", "bad_result"})
RETRIED = frozenset({"error", "exit", "signal", "timeout", "memory", "lost"})


class New(NamedTuple):
    """A job of the same call, by its place."""

    place: int


Ref = int | New


@dataclass(frozen=True)
class Described:
    """A job to be. `edges`: what it waits for, with the kind: ok, any or not_ok."""

    container: bool = False
    parent: Ref | None = None
    edges: tuple[tuple[Ref, str], ...] = ()
    delayed: bool = False
    key: str | None = None
    max_attempts: int = 5


class Model(Operators):
    """The operations."""

    # Enqueue. `ids`: which to give to the places, next ones if empty.

    def enqueue(
        self, described: Sequence[Described], ids: Sequence[int] = (), *, awaits_child: bool = False, within: int = 0
    ) -> list[int] | Refused:
        """The id of each place. `awaits_child`: as a single enqueue has it. `within`: the job in flight whose handler
        calls, which may name itself as the parent."""
        planned = self.plan(described, ids, within)
        if planned == REFUSED or self.in_circle(planned[1]):
            return REFUSED
        places, new = planned
        for job in new.values():
            job.awaits_child = awaits_child and job.container
        self.jobs |= new
        self.settle(born=new.keys())
        return places

    def plan(
        self, described: Sequence[Described], ids: Sequence[int] = (), within: int = 0
    ) -> tuple[list[int], dict[int, Job]] | Refused:
        """The id of each place, and the jobs to be. Circles are not looked for."""
        keys = {job.key: job.id for job in self.jobs.values() if job.key and not job.over}
        first_free = max(self.jobs, default=0) + 1
        places: list[int] = []
        for place, one in enumerate(described):
            own = ids[place] if ids else first_free + place
            places.append(keys.setdefault(one.key, own) if one.key else own)
        new: dict[int, Job] = {}
        for job_id, one in zip(places, described, strict=True):
            if job_id not in self.jobs and job_id not in new:
                edges = {_id(ref, places): kind for ref, kind in one.edges}
                if any(edges[_id(ref, places)] != kind for ref, kind in one.edges):
                    return REFUSED  # it would wait for one job in two ways
                parent = None if one.parent is None else _id(one.parent, places)
                most = one.max_attempts
                new[job_id] = Job(job_id, one.container, parent, edges, one.delayed, one.key, most, most)
        known = self.jobs | new
        fits = all(job.edges.keys() <= known.keys() and self._parent_takes(job, known, within) for job in new.values())
        return (places, new) if fits else REFUSED

    def _parent_takes(self, job: Job, known: Mapping[int, Job], within: int) -> bool:
        if job.parent is None:
            return True
        parent = known.get(job.parent)
        if parent is None or parent.over or parent.cancel_requested:
            return False
        return parent.container or parent.state == "waiting" or (parent.id == within and parent.state in IN_FLIGHT)

    # Attempts.

    def claim(self, job_id: int) -> bool | Refused:
        job = self.jobs.get(job_id)
        if job is None or job.state != "ready":
            return REFUSED
        job.state, job.attempt, job.last_cause = "leased", job.attempt + 1, None
        return True

    def start(self, job_id: int) -> bool | Refused:
        job = self.jobs[job_id]
        if job.state != "leased":
            return REFUSED
        job.state = "running"
        return True

    def end(
        self,
        job_id: int,
        cause: str,
        *,
        result: Any = None,
        children: Sequence[Described] = (),
        followers: Sequence[Described] = (),
        ids: Sequence[int] = (),
    ) -> list[int] | Refused:
        """The ids of what it has spawned: first the `children`, which are its own unless they name a parent among
        themselves, then the `followers`. Both are written only if the end is `done`."""
        job = self.jobs[job_id]
        if job.state not in IN_FLIGHT:
            return REFUSED
        if job.cancel_requested:
            cause = "cancelled"
        before = job.state
        job.last_cause = cause
        places: list[int] = []
        new: dict[int, Job] = {}
        if cause == "done":
            own = [replace(one, parent=job_id) if one.parent is None else one for one in children]
            planned = self.plan([*own, *followers], ids, within=job_id)
            if planned == REFUSED or self.in_circle(planned[1]):
                job.state, job.last_cause = before, None
                return REFUSED
            places, new = planned
            self.jobs |= new
            job.own_result = result
            job.end("waiting" if self.children(job) else "done", None, None, result)
        elif cause in GIVEN_BACK:
            job.state = GIVEN_BACK[cause]
            job.attempts_allowed += 1
        elif cause in RETRIED and job.attempt < job.attempts_allowed:
            job.state, job.delayed = "scheduled", False
        elif cause == "cancelled":
            self._end_badly(job, "cancelled", "cancelled")
        else:
            self._end_badly(job, "failed", cause)
        self.settle(born=new.keys())
        return places

    def _end_badly(self, job: Job, state: str, reason: str) -> None:
        """What a leaf had enqueued below itself ends with it."""
        job.end(state, reason, None)
        for child in self.children(job):
            self.cancel_tree(child)

    def time_passes(self) -> None:
        """All that is scheduled becomes ready."""
        for job in self.jobs.values():
            if job.state == "scheduled":
                job.state, job.delayed = "ready", False
        self.settle()


def _id(ref: Ref, places: Sequence[int]) -> int:
    return places[ref.place] if isinstance(ref, New) else ref
