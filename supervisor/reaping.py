"""Write what is known of dead children: the end where the child wrote none, and the evidence of its process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqljobs.schema.evidence import Evidence, Verdict, record_evidence, verdicts
from sqljobs.schema.finalize import finalize, settle_finalize
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Backoff, Outcome
from sqljobs.schema.renderings import last_line
from sqljobs.schema.transactions import Database, Transaction
from sqljobs.supervisor.crashes import OWN_FAULT
from sqljobs.supervisor.kill_ladder import Taken
from sqljobs.supervisor.running import Death
from sqljobs.supervisor.swept import Swept
from sqljobs.worker_runtime.child import UNREACHABLE

NAMED = 20
EXPECTED_ENDINGS = frozenset({"done", "snoozed", "cancelled"})


def record_deaths(database: Database, deaths: Sequence[Death]) -> dict[Fence, Verdict]:
    """Returns what the rows say of each attempt afterwards. May be called again with the same deaths after an error."""
    _write_ends(database, [death for death in deaths if not death.is_reported])
    found = _record_evidence(database, deaths)
    # A handler has the pipe, too, and may say anything: the rows know.
    lied = [death for death in deaths if death.lease.fence in found and found[death.lease.fence].cause is None]
    if lied:
        _write_ends(database, lied)
        found = _record_evidence(database, deaths)
    return found


def _write_ends(database: Database, deaths: Iterable[Death]) -> None:
    for death in deaths:
        write_end(database, death.lease.fence, death.outcome, death.job_type.backoff)


def _record_evidence(database: Database, deaths: Sequence[Death]) -> dict[Fence, Verdict]:
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
            **_said(death.evidence),
        )
        log_swept(log, death.strays, job_id=death.lease.job_id, attempt=death.lease.attempt)
        yield cause


def _said(evidence: Evidence) -> dict[str, str]:
    """The last line of a child that ended by a fault of ours, or could not write its end: what it printed says why."""
    if evidence.exit_code not in (OWN_FAULT, UNREACHABLE) or evidence.log_tail is None:
        return {}
    return {"said": last_line(evidence.log_tail) or ""}


def log_stopping(log: Any, sent: Sequence[Taken]) -> None:
    """Say at once what is done to an attempt: its end can be written only when the database answers."""
    for job_id, attempt, reason, action in sent:
        sent_signal = None if action.signal is None else action.signal.name
        log.info("stopping attempt", job_id=job_id, attempt=attempt, step=action, why=reason, signal=sent_signal)


def log_swept(log: Any, swept: Swept, **about: Any) -> None:
    """Log what was left behind, if anything; `about` says by whom."""
    killed, left = ([process.pid for process in found] for found in (swept.killed, swept.left))
    if killed:
        log.info("killed what was left behind", **about, count=len(killed), pids=killed[:NAMED])
    if left:
        log.warning("left behind and not to be killed: it lives on", **about, count=len(left), pids=left[:NAMED])
