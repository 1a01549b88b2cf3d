"""Write what is known of dead children: the end where the child wrote none, and the evidence of its process."""

from __future__ import annotations

from collections.abc import Sequence

from sqljobs.schema.evidence import Verdict, record_evidence, verdicts
from sqljobs.schema.finalize import finalize, settle_finalize
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Backoff, Outcome
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.attempts import Death


def record_deaths(database: Database, deaths: Sequence[Death]) -> dict[Fence, Verdict]:
    """Returns what the rows say of each attempt afterwards. May be called again with the same deaths after an error."""
    for death in deaths:
        if death.outcome is not None:
            write_end(database, death.lease.fence, death.outcome, death.job_type.backoff)

    def work(tx: Transaction) -> dict[Fence, Verdict]:
        record_evidence(tx, [death.evidence for death in deaths])
        return verdicts(tx, [death.lease.fence for death in deaths])

    # Writing the same evidence twice changes nothing, so a COMMIT of unknown outcome is simply repeated.
    return database.transaction("evidence", work, settle=work)


def write_end(database: Database, fence: Fence, outcome: Outcome, backoff: Backoff) -> bool:
    """End an attempt in its child's stead; False when the fence is gone: the child, or another, was first."""
    return database.transaction(
        "crash",
        lambda tx: finalize(tx, fence, outcome, backoff) is not None,
        settle=lambda tx: settle_finalize(tx, fence),
    )
