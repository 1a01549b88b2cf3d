"""Write the rows of one call of enqueue: jobs, level by level, and their edges. What they hold is planned already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update

from sqljobs.schema.amounts import uses_key
from sqljobs.schema.chunks import chunks
from sqljobs.schema.conditions import in_pairs
from sqljobs.schema.enqueue_plan import Call, Start
from sqljobs.schema.errors import DuplicateKey
from sqljobs.schema.graph import Edge, closing_text, is_good
from sqljobs.schema.payloads import counts_json
from sqljobs.schema.specs import Request
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.wake import wake

ROWS_PER_STATEMENT = 500
EDGES_PER_STATEMENT = 2000
BYTES_PER_STATEMENT = 4 * 1024 * 1024  # MariaDB takes packets of 16 MiB, and quoting may double the text


class KeyLost(Exception):
    """Another has taken the key of a container whose members this call has: all must be planned anew."""


@dataclass
class Rows:
    """The rows of one call. `ids`: by position, also those of jobs that hold a key; `written`: the new ones."""

    call: Call
    starts: Mapping[int, Start]
    batch: str
    ids: dict[int, int]
    written: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids = dict(self.ids)

    def parent_of(self, position: int) -> int | None:
        """The id of its parent, which is written by now."""
        parent = self.call.parents[position]
        if isinstance(parent, int):
            return self.ids[parent]
        return None if parent is None else parent.job_id


def insert_jobs(tx: Transaction, rows: Rows, levels: Sequence[Sequence[int]]) -> None:
    """Write the new jobs, parents before their members; takes the holders of keys that were lost since the plan.

    Raises `KeyLost`, and `DuplicateKey` with the transaction as it was."""
    parents = rows.call.parents
    has_members = {parent for at in rows.call.new if isinstance(parent := parents[at], int)}
    for level in levels:
        missing = list(level)
        while missing:
            for chunk in _by_bytes([_row(place, rows, tx.now) for place in missing]):
                tx.step("insert")
                inserted = tx.dialect.insert_new(tx.conn, jobs, chunk)
                rows.written |= inserted
                rows.ids |= inserted
            lost = [position for position in missing if position not in rows.written]
            if has_members & set(lost):
                raise KeyLost
            requests = rows.call.requests
            taken = taken_keys(tx, [requests[position] for position in lost], latest=True)
            for position in lost:
                holder = taken.get((requests[position].type, requests[position].key or ""))
                if holder is not None:
                    _refuse_duplicate(tx, requests[position], holder, rows.written)
                    rows.ids[position] = holder
            # Without a holder, that job has ended meanwhile and its key is free again.
            missing = [position for position in lost if position not in rows.ids]


def undo(tx: Transaction, written: Mapping[int, int]) -> None:
    """Take back the rows of this call."""
    if written:  # one by one, since a DELETE of many walks, and locks, other rows on MySQL where the table is small
        one = delete(jobs).where(jobs.c.id == bindparam("written"))
        tx.execute("undo", one, [{"written": job_id} for job_id in sorted(written.values())])


def _refuse_duplicate(tx: Transaction, request: Request, holder: int, written: Mapping[int, int]) -> None:
    if request.on_conflict == "raise":
        undo(tx, written)
        raise duplicate(request, holder)


def _by_bytes(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        weight = 4 * len(row["args"] or "")  # a character is at most four bytes
        if chunk and (len(chunk) == ROWS_PER_STATEMENT or size + weight > BYTES_PER_STATEMENT):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += weight
    if chunk:
        yield chunk


def _row(position: int, rows: Rows, now: datetime) -> dict[str, Any]:
    request, start = rows.call.requests[position], rows.starts[position]
    ended = start.state in FINAL
    keeps_key = not ended or request.key_for == "ever"
    return {
        "type": request.type,
        "args": request.args,
        "state": start.state.value,
        "reason": start.reason,
        "reason_text": closing_text(start.reason, start.culprit),
        "reason_job_id": start.culprit,
        "result": counts_json(start.children) if request.container and start.state is State.DONE else None,
        "parent_id": rows.parent_of(position),
        "container": request.container,
        "group_key": request.group,
        "weight": request.weight,
        "priority": request.priority,
        "key": request.key,
        "key_for": request.key_for,
        "key_slot": request.key if keeps_key else None,
        "in_flight": False,
        "run_after": start.due,
        "attempt": 0,
        "max_attempts": request.max_attempts,
        "first_max_attempts": request.max_attempts,
        "timeout": request.timeout,
        "memory": request.memory,
        "on_failed": request.on_failed,
        "uses": request.uses,
        "uses_key": uses_key(request.uses),
        "given": list(request.given) or None,
        "cancel_now": False,
        "unmet_deps": start.unmet,
        "closed_gates": int(start.gated),
        "open_children": start.children.open,
        "done_children": start.children.done,
        "failed_children": start.children.failed,
        "cancelled_children": start.children.cancelled,
        "not_needed_children": start.children.not_needed,
        "awaits_child": request.container and rows.call.awaits_child and not any(start.children),
        "batch": rows.batch,
        "batch_no": position,
        "created_at": now,
        "updated_at": now,
        "started_at": now if start.state in (State.WAITING, State.DONE) else None,  # a container that lets its members
        "ended_at": now if ended else None,
    }


def insert_edges(tx: Transaction, rows: Rows) -> None:
    """All edges of the new jobs. One to a job that looked open stays unchecked: its end may be under way."""
    edges = _edge_rows(rows)
    for chunk in chunks(list(edges.values()), EDGES_PER_STATEMENT):
        tx.execute("edges", insert(job_deps), chunk)
    if not all(edge["checked"] for edge in edges.values()):
        wake(tx)
    unmet = Counter(edge["job_id"] for edge in edges.values() if not edge["satisfied"])
    for position, job_id in rows.written.items():
        if unmet[job_id] != rows.starts[position].unmet:  # a lost key made one job of two that it waits for
            tx.execute("unmet", update(jobs).where(jobs.c.id == job_id).values(unmet_deps=unmet[job_id]))


def _edge_rows(rows: Rows) -> dict[tuple[int, int], dict[str, Any]]:
    fresh, known = set(rows.written.values()), rows.call.known
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for position, job_id in sorted(rows.written.items()):
        edges = zip(rows.call.upstreams[position].items(), rows.starts[position].edges, strict=True)
        for place, ((edge, kind), standing) in enumerate(edges):
            upstream = edge.job_id if edge.job_id is not None else rows.ids[edge.position or 0]
            if edge.job_id is None and upstream not in fresh:  # another has taken its key: nothing is known of that one
                standing = Edge.OPEN
            row = {
                "job_id": job_id,
                "depends_on_id": upstream,
                "kind": kind,
                "position": place,
                "satisfied": standing is Edge.SATISFIED,
                # A bad end may be undone by a retry that cannot see this job yet.
                "checked": upstream in fresh or (upstream in known and is_good(*known[upstream][:2])),
            }
            found.setdefault((job_id, upstream), row)
    return found


def taken_keys(tx: Transaction, requests: Sequence[Request], *, latest: bool = False) -> dict[tuple[str, str], int]:
    """(type, key) -> id of the job that holds it, `latest` with what was committed since the caller's snapshot."""
    pairs = sorted({(request.type, request.key) for request in requests if request.key is not None})
    taken: dict[tuple[str, str], int] = {}
    for chunk in chunks(pairs):
        statement = select(jobs.c.id, jobs.c.type, jobs.c.key_slot).where(in_pairs(jobs.c.type, jobs.c.key_slot, chunk))
        rows = tx.execute("keys", tx.dialect.latest(statement) if latest else statement)
        taken |= {(row.type, row.key_slot): row.id for row in rows}
    return taken


def duplicate(request: Request, job_id: int) -> DuplicateKey:
    """The error for a key that `job_id` has taken, or, with 0, another job of the call."""
    holder = f"job {job_id}" if job_id else "another job of this call"
    return DuplicateKey(f"{request.type!r} with key {request.key!r} is taken by {holder}", job_id)
