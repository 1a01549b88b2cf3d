"""What must hold of the rows at every commit, computed anew from edges, parents and attempts. Returns what does not."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from sqljobs.schema.graph import Edge, edge_of, is_good
from sqljobs.schema.ready import ready_set
from sqljobs.schema.states import FINAL, IN_FLIGHT, State
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Transaction


@dataclass(frozen=True)
class Rows:
    """All that there is. `edges` by the job that waits, `children` in order of their ids, `settled`: nothing waits to
    be looked at by a supervisor."""

    jobs: dict[int, Any]
    edges: dict[int, list[Any]]
    children: dict[int, list[Any]]
    attempts: dict[int, list[Any]]
    settled: bool

    def is_gated(self, row: Any) -> bool:
        parent = self.jobs.get(row.parent_id)
        return parent is not None and parent.container and parent.state == State.BLOCKED

    def around(self, row: Any) -> Iterator[Any]:
        """What it is part of, innermost first."""
        while (row := self.jobs.get(row.parent_id)) is not None:
            yield row

    def standing(self, edge: Any) -> Edge:
        upstream = self.jobs[edge.depends_on_id]
        return edge_of(edge.kind, upstream.state, upstream.reason)

    def causes(self, row: Any) -> list[str]:
        return [attempt.cause for attempt in self.attempts[row.id] if attempt.cause is not None]

    def is_pure(self, row: Any) -> bool:
        """A container that nobody runs, not a job that has spawned and is one from its success on."""
        return bool(row.container) and not self.attempts[row.id]


def audit(tx: Transaction, *, settled: bool = True) -> list[str]:
    """The broken rules, in words. `settled`: no edge waits to be looked at by a supervisor."""
    found = read(tx, settled)
    broken = [
        fault
        for row in found.jobs.values()
        for rule in (_of_edges, _of_closings, _of_attempts, _of_parents, _of_containers)
        for fault in rule(row, found)
    ]
    may_start = {
        row.id
        for row in found.jobs.values()
        if row.state == State.READY or (row.state == State.SCHEDULED and row.run_after <= tx.now)
    }
    oracle = ready_set(tx)
    if may_start != oracle:
        broken.append(f"ready by state {sorted(may_start - oracle)}, by definition {sorted(oracle - may_start)}")
    return broken


def read(tx: Transaction, settled: bool) -> Rows:
    """Everything."""
    found = Rows({}, defaultdict(list), defaultdict(list), defaultdict(list), settled)
    found.jobs.update({row.id: row for row in tx.execute("jobs", select(jobs).order_by(jobs.c.id))})
    for row in found.jobs.values():
        found.children[row.parent_id].append(row)
    for edge in tx.execute("edges", select(job_deps)):
        found.edges[edge.job_id].append(edge)
    for attempt in tx.execute("attempts", select(job_attempts).order_by(job_attempts.c.attempt)):
        found.attempts[attempt.job_id].append(attempt)
    return found


def _of_edges(row: Any, found: Rows) -> Iterator[str]:
    edges = found.edges[row.id]
    unsatisfied = [edge for edge in edges if not edge.satisfied]
    is_open = row.state not in FINAL
    if row.unmet_deps != len(unsatisfied):
        yield f"{row.id}: unmet_deps {row.unmet_deps}, but {len(unsatisfied)} edges"
    if is_open and row.closed_gates != found.is_gated(row):
        yield f"{row.id}: closed_gates {row.closed_gates}, but its parent is {found.jobs[row.parent_id].state}"
    if is_open and (row.state == State.BLOCKED) != (bool(unsatisfied) or found.is_gated(row)):
        yield f"{row.id}: {row.state} with {len(unsatisfied)} unsatisfied edges, gated: {found.is_gated(row)}"
    for edge in edges:
        upstream = found.jobs[edge.depends_on_id]
        standing = found.standing(edge)
        if found.settled and not edge.checked and standing is not Edge.OPEN:
            yield f"{row.id}: its edge to {upstream.id}, which is {upstream.state}, was not looked at"
        # A retry of the upstream does not un-run what has begun, and a supervisor is yet to see new edges.
        begun = row.attempt > 0 or not is_open or row.state == State.WAITING
        stands = edge.kind != "ok" and (begun or not edge.checked)
        if edge.satisfied and standing is not Edge.SATISFIED and not stands:
            yield f"{row.id}: satisfied by {upstream.id}, which is {upstream.state}"
        if edge.checked and not edge.satisfied and standing is Edge.SATISFIED:
            yield f"{row.id}: not satisfied by {upstream.id}, which is {upstream.state}"
        if edge.checked and standing is Edge.BROKEN and row.state != State.CANCELLED:
            yield f"{row.id}: {row.state} though {upstream.id} is {upstream.state}"


def _of_closings(row: Any, found: Rows) -> Iterator[str]:
    """Whether what was cancelled because of others was rightly so, and what is not, rightly not."""
    edges = found.edges[row.id]
    awaited = [edge for edge in edges if edge.kind == "not_ok"]
    ends = [found.jobs[edge.depends_on_id] for edge in awaited]
    pointless = bool(awaited) and all(up.state in FINAL and is_good(up.state, up.reason) for up in ends)
    looked_at = all(edge.satisfied and edge.checked for edge in awaited)
    if pointless and looked_at and row.attempt == 0 and row.state not in (*FINAL, State.WAITING):
        yield f"{row.id}: {row.state}, and none that it is there to follow has ended badly"
    parent = found.jobs.get(row.parent_id)
    with_parent = (
        parent is not None
        and parent.container
        and (parent.reason, parent.reason_job_id) == (row.reason, row.reason_job_id)
    )
    if row.reason == "not_needed" and not pointless and not with_parent:
        yield f"{row.id}: not needed, though {[(up.id, up.state) for up in ends]}"
    # A key that another had taken at the retry keeps a job from being reopened.
    broken = Edge.BROKEN in [found.standing(edge) for edge in edges]
    # Nothing is opened again in a container that was closed for another job.
    enclosed = any(up.container and up.reason in ("dependency", "not_needed") for up in found.around(row))
    if row.reason == "dependency" and row.key is None and not broken and not enclosed:
        yield f"{row.id}: cancelled for a dependency, and all of them may still be met"


def _of_attempts(row: Any, found: Rows) -> Iterator[str]:
    attempts = found.attempts[row.id]
    if [attempt.attempt for attempt in attempts] != list(range(1, row.attempt + 1)):
        yield f"{row.id}: attempt {row.attempt}, rows {[attempt.attempt for attempt in attempts]}"
    open_ones = [attempt.attempt for attempt in attempts if attempt.cause is None]
    if open_ones != ([row.attempt] if row.in_flight else []):
        yield f"{row.id}: {row.state} at attempt {row.attempt}, open attempts {open_ones}"
    causes = found.causes(row)
    by_itself = row.state == State.DONE and row.reason != "skipped"
    done_by_itself = not found.is_pure(row) if row.container else by_itself
    if done_by_itself != (causes[-1:] == ["done"]):
        yield f"{row.id}: {row.state}, causes {causes}"
    taken = row.state not in FINAL or row.key_for == "ever"
    if row.key is not None and row.key_slot != (row.key if taken else None):
        yield f"{row.id}: {row.state}, key {row.key!r} in slot {row.key_slot!r}"


def _of_parents(row: Any, found: Rows) -> Iterator[str]:
    """What a parent counts, and what its state makes of its children's."""
    children = found.children[row.id]
    states = [child.state for child in children]
    counted = (row.open_children, row.done_children, row.failed_children, row.cancelled_children)
    ended = (states.count("done"), states.count("failed"), states.count("cancelled"))
    # One that is not done yet has no need to know of members that its handler has enqueued.
    if row.container and counted != (len(states) - sum(ended), *ended):
        yield f"{row.id}: counts {counted}, but its children are {states}"
    for child in children:
        if row.state in FINAL and child.state not in FINAL and not child.in_flight:
            yield f"{child.id}: {child.state} in {row.id}, which is {row.state}"
        if row.container and row.state == State.BLOCKED and child.state not in (*FINAL, State.BLOCKED):
            yield f"{child.id}: {child.state} in {row.id}, which is blocked"
        asked = child.cancel_requested_at is not None
        in_cancel = row.container and row.state not in FINAL and row.cancel_requested_at is not None
        if in_cancel and child.state not in FINAL and not asked:
            yield f"{child.id}: {child.state} in {row.id}, which is being cancelled"
    if children and not row.container and row.attempt == 0:
        yield f"{row.id}: has children, and neither is a container nor has run"


def _came_late(child: Any, parent: Any) -> bool:
    ended = parent.state in FINAL and child.state == State.CANCELLED
    return ended and bool(child.ended_at > parent.ended_at)


def _of_containers(row: Any, found: Rows) -> Iterator[str]:
    """A container, or a job that has spawned, ends as its children did, without those that came too late."""
    children = [child for child in found.children[row.id] if not _came_late(child, row)]
    pure = found.is_pure(row)
    if row.container and row.state in (State.SCHEDULED, State.READY, *IN_FLIGHT):
        yield f"{row.id}: a container that is {row.state}"
    if row.container and not pure and not children:
        yield f"{row.id}: a container that has run, and has no children"
    if row.state == State.WAITING and not (row.container and (row.open_children or (pure and not children))):
        yield f"{row.id}: waits for no child"
    if not row.container or row.state not in FINAL or row.reason in ("dependency", "not_needed"):
        if row.state not in FINAL and row.reason is not None:
            yield f"{row.id}: {row.state} for the reason {row.reason}"
        if pure and row.result is not None:
            yield f"{row.id}: {row.state}, and has a result"
        return
    failed = [child.id for child in children if child.state == State.FAILED]
    missed = [child.id for child in children if child.state == State.CANCELLED and child.reason != "not_needed"]
    ends: set[tuple[str, str | None, int | None]] = set() if failed or missed else {("done", None, None)}
    ends |= {("failed", "children", failed[0])} if failed else {("cancelled", "cancelled", None)}
    ends |= {("cancelled", "children", missed[0])} if missed and not failed else set()
    if (row.state, row.reason, row.reason_job_id) not in ends:
        yield f"{row.id}: {row.state}, {row.reason} {row.reason_job_id}, but it can be {ends}"
    states = [child.state for child in children]
    counts = {state.value: states.count(state) for state in (State.DONE, State.FAILED, State.CANCELLED)}
    if pure and row.result != counts:
        yield f"{row.id}: result {row.result}, but counts {counts}"
