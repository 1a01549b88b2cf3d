"""What must hold of the rows at every commit, computed anew from edges and attempts. Returns what does not."""

from collections import defaultdict
from typing import Any

from sqlalchemy import select

from sqljobs.schema.graph import Edge, edge_of, is_good
from sqljobs.schema.ready import ready_set
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Transaction


def audit(tx: Transaction, *, settled: bool = True) -> list[str]:
    """The broken rules, in words. `settled`: no edge waits to be looked at by a supervisor."""
    rows = {row.id: row for row in tx.execute("jobs", select(jobs))}
    edges: dict[int, list[Any]] = defaultdict(list)
    for edge in tx.execute("edges", select(job_deps)):
        edges[edge.job_id].append(edge)
    attempts: dict[int, list[Any]] = defaultdict(list)
    for attempt in tx.execute("attempts", select(job_attempts).order_by(job_attempts.c.attempt)):
        attempts[attempt.job_id].append(attempt)
    broken = [
        fault
        for row in rows.values()
        for fault in (*_of_edges(row, edges[row.id], rows, settled), *_of_attempts(row, attempts[row.id]))
    ]
    may_start = {
        row.id
        for row in rows.values()
        if row.state == State.READY or (row.state == State.SCHEDULED and row.run_after <= tx.now)
    }
    oracle = ready_set(tx)
    if may_start != oracle:
        broken.append(f"ready by state {sorted(may_start - oracle)}, by definition {sorted(oracle - may_start)}")
    return broken


def _of_edges(row: Any, edges: list[Any], rows: dict[int, Any], settled: bool) -> list[str]:
    broken = []
    unsatisfied = [edge for edge in edges if not edge.satisfied]
    if row.unmet_deps != len(unsatisfied):
        broken.append(f"{row.id}: unmet_deps {row.unmet_deps}, but {len(unsatisfied)} edges")
    if row.state not in FINAL and (row.state == State.BLOCKED) != bool(unsatisfied):
        broken.append(f"{row.id}: {row.state} with {len(unsatisfied)} unsatisfied edges")
    for edge in edges:
        upstream = rows[edge.depends_on_id]
        standing = edge_of(edge.kind, upstream.state, upstream.reason)
        if settled and not edge.checked and standing is not Edge.OPEN:
            broken.append(f"{row.id}: its edge to {upstream.id}, which is {upstream.state}, was not looked at")
        # A retry of the upstream does not un-run what has been claimed, and a supervisor is yet to see new edges.
        stands = edge.kind != "ok" and (row.attempt > 0 or row.state in FINAL or not edge.checked)
        if edge.satisfied and standing is not Edge.SATISFIED and not stands:
            broken.append(f"{row.id}: satisfied by {upstream.id}, which is {upstream.state}")
        if edge.checked and not edge.satisfied and standing is Edge.SATISFIED:
            broken.append(f"{row.id}: not satisfied by {upstream.id}, which is {upstream.state}")
        if edge.checked and standing is Edge.BROKEN and row.state != State.CANCELLED:
            broken.append(f"{row.id}: {row.state} though {upstream.id} is {upstream.state}")
    awaited = [edge for edge in edges if edge.kind == "not_ok"]
    ends = [rows[edge.depends_on_id] for edge in awaited]
    over = bool(awaited) and all(edge.satisfied and edge.checked for edge in awaited)
    pointless = over and all(up.state in FINAL and is_good(up.state, up.reason) for up in ends)
    if pointless and row.attempt == 0 and row.state not in FINAL:
        broken.append(f"{row.id}: {row.state}, and none that it is there to follow has ended badly")
    if row.reason == "not_needed" and not (over and pointless):
        broken.append(f"{row.id}: not needed, though {[(up.id, up.state) for up in ends]}")
    standings = [edge_of(e.kind, rows[e.depends_on_id].state, rows[e.depends_on_id].reason) for e in edges]
    # A key that another had taken at the retry keeps a job from being reopened.
    if row.reason == "dependency" and row.key is None and Edge.BROKEN not in standings:
        broken.append(f"{row.id}: cancelled for a dependency, and all of them may still be met")
    return broken


def _of_attempts(row: Any, attempts: list[Any]) -> list[str]:
    broken = []
    if [attempt.attempt for attempt in attempts] != list(range(1, row.attempt + 1)):
        broken.append(f"{row.id}: attempt {row.attempt}, rows {[attempt.attempt for attempt in attempts]}")
    open_ones = [attempt.attempt for attempt in attempts if attempt.cause is None]
    if open_ones != ([row.attempt] if row.in_flight else []):
        broken.append(f"{row.id}: {row.state} at attempt {row.attempt}, open attempts {open_ones}")
    causes = [attempt.cause for attempt in attempts if attempt.cause is not None]
    if (row.state == State.DONE) != (causes[-1:] == ["done"]):
        broken.append(f"{row.id}: {row.state}, causes {causes}")
    taken = row.state not in FINAL or row.key_for == "ever"
    if row.key is not None and row.key_slot != (row.key if taken else None):
        broken.append(f"{row.id}: {row.state}, key {row.key!r} in slot {row.key_slot!r}")
    return broken
