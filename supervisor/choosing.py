"""Which ready jobs to claim now: fair share over what limits and devices admit. Pure: no clock, no database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sqljobs.supervisor.fair_share import Candidate, Held, Usage, rank

Admit = Callable[[Candidate], bool]


def choose(
    candidates: Collection[Candidate],
    held: Sequence[Held],
    usage: Mapping[str, Usage],
    *,
    slots_free: int,
    aging: float,
    weights: Mapping[str, int],
    admit: Admit,
) -> list[int]:
    """The ids of the jobs to claim, in order, at most `slots_free`.

    `admit` reserves what a job uses, or says that it may not start; of its lane, who all use the same, nobody may then.
    What is ranked counts as held for the next round, so that a slot that one group leaves goes to the others: none is
    idle while a job may run."""
    pool = list(candidates)
    chosen: list[Candidate] = []
    while pool and len(chosen) < slots_free:
        taken = [*held, *(Held(job.group, 0.0) for job in chosen)]
        ids = rank(pool, taken, usage, slots_free=slots_free - len(chosen), aging=aging, weights=weights)
        by_id = {job.job_id: job for job in pool}
        closed: set[object] = set()
        for job_id in ids:
            job = by_id[job_id]
            if job.lane in closed:
                continue
            if admit(job):
                chosen.append(job)
            else:
                closed.add(job.lane)
        if not closed:
            break
        picked = set(chosen)
        pool = [job for job in pool if job not in picked and job.lane not in closed]
    return [job.job_id for job in chosen]
