"""Write what is known of dead children: the end where the child wrote none, and the evidence of its process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqljobs.schema.evidence import Verdict, record_evidence, verdicts
from sqljobs.schema.finalize import finalize, settle_finalize
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Backoff, Outcome
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.attempts import Death
from sqljobs.supervisor.kill_ladder import Stopping
from sqljobs.supervisor.sweeping import Swept

NAMED = 20
EXPECTED_ENDINGS = frozenset({"done", "snoozed", "cancelled"})


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


def log_ends(log: Any, deaths: Sequence[Death], verdicts: Mapping[Fence, Verdict]) -> Iterator[str]:
    """Log how each attempt ended; yields the cause of each."""
    for death in deaths:
        verdict = verdicts.get(death.lease.fence)
        cause = verdict.cause if verdict is not None and verdict.cause else "unknown"
        say = log.info if cause in EXPECTED_ENDINGS else log.warning
        say(
            "attempt ended",
            job_id=death.lease.job_id,
            attempt=death.lease.attempt,
            type=death.lease.type,
            cause=cause,
            state=verdict.state if verdict is not None else None,
            why=verdict.why if verdict is not None else None,
            signal=death.evidence.signal,
            exit_code=death.evidence.exit_code,
        )
        log_swept(log, death.strays, job_id=death.lease.job_id, attempt=death.lease.attempt)
        yield cause


def log_stopping(log: Any, sent: Sequence[Stopping]) -> None:
    """Say at once what is done to an attempt: its end can be written only when the database answers."""
    for job_id, attempt, reason, number in sent:
        log.info("stopping attempt", job_id=job_id, attempt=attempt, why=reason, signal=number.name)


def log_swept(log: Any, swept: Swept, **about: Any) -> None:
    """Log what was left behind, if anything; `about` says by whom."""
    killed, left = ([process.pid for process in found] for found in (swept.killed, swept.left))
    if killed:
        log.info("killed what was left behind", **about, count=len(killed), pids=killed[:NAMED])
    if left:
        log.warning("left behind and not to be killed: it lives on", **about, count=len(left), pids=left[:NAMED])
