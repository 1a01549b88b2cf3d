"""One claim round: read the ready set, rank it by fair share, lease exactly what was ranked."""

from __future__ import annotations

from collections.abc import Mapping

from sqljobs.schema.claim import Claimer, Lease, claim, settle_claim
from sqljobs.schema.ready import HeldSlot, ReadyJob, Wanted, in_flight, scan
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.attempts import boottime
from sqljobs.supervisor.fair_share import Candidate, Held, rank
from sqljobs.supervisor.usage import UsageLedger
from sqljobs.worker_runtime.registry import JobType


def claim_round(
    database: Database,
    claimer: Claimer,
    wanted: Wanted,
    job_types: Mapping[str, JobType],
    ledger: UsageLedger,
    *,
    free_slots: int,
    aging: float,
) -> list[Lease]:
    """Lease at most `free_slots` jobs, in the order of their rank. Another supervisor may have been faster: fewer."""

    def look(tx: Transaction) -> tuple[list[ReadyJob], list[HeldSlot]]:
        ready = scan(tx, wanted, free_slots)
        return ready, in_flight(tx) if ready else []

    ready, flying = database.read("scan", look)
    if not ready:
        return []
    candidates = [Candidate(job.job_id, job.group, job.weight, job.priority, job.created_at) for job in ready]
    held = [Held(slot.group, slot.elapsed) for slot in flying]
    chosen = rank(candidates, held, ledger.snapshot(boottime()), slots_free=free_slots, aging=aging)
    return database.transaction(
        "claim",
        lambda tx: claim(tx, claimer, chosen, lambda name: job_types[name].defaults),
        settle=lambda tx: settle_claim(tx, claimer, chosen),
    )
