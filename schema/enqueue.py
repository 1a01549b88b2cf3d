"""Insert jobs and their edges in the caller's transaction; takes no lock on any existing job."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update

from sqljobs.schema.conditions import in_pairs
from sqljobs.schema.enqueue_plan import Known, Start, Upstream, first_of_key, named_positions, starts_of, upstreams_of
from sqljobs.schema.errors import DuplicateKey, UnknownJob
from sqljobs.schema.graph import Edge, closing_text, in_order, is_good
from sqljobs.schema.specs import CheckArgs, DefaultsOf, JobSpec, Request, check_request
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.wake import wake

ROWS_PER_STATEMENT = 500
EDGES_PER_STATEMENT = 2000
BYTES_PER_STATEMENT = 4 * 1024 * 1024  # MariaDB takes packets of 16 MiB, and quoting may double the text


@dataclass(frozen=True)
class Enqueued:
    """The id that a spec got, and whether this call wrote the row."""

    id: int
    created: bool


def enqueue_many(
    tx: Transaction,
    specs: Sequence[JobSpec],
    defaults_of: DefaultsOf,
    check_args: CheckArgs,
    *,
    batch: str | None = None,
) -> list[Enqueued]:
    """Insert all of `specs` and their edges, in a number of statements that grows only with the bulk.

    `after` may name ids and other specs of the call. `batch`: a token of 32 characters for this call, for who must
    settle a lost COMMIT. Everything is checked before the first row is written: raises `InvalidJob`, `CycleError`,
    `UnknownJob`, or `DuplicateKey` with the transaction as it was."""
    requests = [check_request(spec, defaults_of, check_args) for spec in specs]
    if not requests:
        return []
    first = first_of_key(requests)
    named = [[first[position] for position in positions] for positions in named_positions(requests)]
    order = in_order(named, [f"{request.type} (number {n})" for n, request in enumerate(requests)])
    known = _read_upstreams(tx, {item for request in requests for item in request.waits_for if isinstance(item, int)})
    existing = _existing(tx, requests, first)
    known |= _read_upstreams(tx, set(existing.values()) - known.keys())
    upstreams = upstreams_of(requests, named, first, existing)
    new = [position for position in order if position not in existing and position == first[position]]
    starts = starts_of(tx.now, requests, upstreams, new, known)
    written, holders = _insert_jobs(tx, requests, starts, new, batch or uuid.uuid4().hex)
    ids = existing | written | holders
    _insert_edges(tx, upstreams, starts, written, ids, known)
    if any(starts[position].state is State.READY for position in written):
        wake(tx)
    return [Enqueued(ids[first[position]], position in written) for position in range(len(requests))]


def _existing(tx: Transaction, requests: Sequence[Request], first: Sequence[int]) -> dict[int, int]:
    """Position -> id of the job that holds its key already. Raises `DuplicateKey` where that was asked for."""
    taken = _taken_keys(tx, requests)
    found: dict[int, int] = {}
    for position, request in enumerate(requests):
        holder = taken.get((request.type, request.key)) if request.key is not None else None
        if request.on_conflict == "raise" and (holder is not None or first[position] != position):
            raise _duplicate(request, holder or 0)
        if holder is not None:
            found[position] = holder
    return found


def _chunks(items: Sequence[Any], size: int = ROWS_PER_STATEMENT) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _read_upstreams(tx: Transaction, ids: set[int]) -> dict[int, Known]:
    found: dict[int, Known] = {}
    for chunk in _chunks(sorted(ids)):
        rows = tx.execute(
            "upstreams",
            select(jobs.c.id, jobs.c.state, jobs.c.reason, jobs.c.reason_job_id).where(jobs.c.id.in_(chunk)),
        )
        for row in rows:
            culprit = row.reason_job_id if row.reason == "dependency" and row.reason_job_id else row.id
            found[row.id] = Known(row.state, row.reason, culprit)
    for missing in sorted(ids - found.keys()):
        raise UnknownJob(f"after: there is no job {missing}")
    return found


def _taken_keys(tx: Transaction, requests: Sequence[Request], *, latest: bool = False) -> dict[tuple[str, str], int]:
    """(type, key) -> id of the job that holds it, `latest` with what was committed since the caller's snapshot."""
    pairs = sorted({(request.type, request.key) for request in requests if request.key is not None})
    taken: dict[tuple[str, str], int] = {}
    for chunk in _chunks(pairs):
        statement = select(jobs.c.id, jobs.c.type, jobs.c.key_slot).where(in_pairs(jobs.c.type, jobs.c.key_slot, chunk))
        rows = tx.execute("keys", tx.dialect.latest(statement) if latest else statement)
        taken |= {(row.type, row.key_slot): row.id for row in rows}
    return taken


def _duplicate(request: Request, job_id: int) -> DuplicateKey:
    holder = f"job {job_id}" if job_id else "another job of this call"
    return DuplicateKey(f"{request.type!r} with key {request.key!r} is taken by {holder}", job_id)


def _insert_jobs(
    tx: Transaction, requests: Sequence[Request], starts: Mapping[int, Start], new: Sequence[int], batch: str
) -> tuple[dict[int, int], dict[int, int]]:
    """Position -> id of the rows written, and of the jobs whose key another took between our look and our insert."""
    written: dict[int, int] = {}
    holders: dict[int, int] = {}
    missing = sorted(new)
    while missing:
        for chunk in _by_bytes([_row(place, requests[place], starts[place], batch, tx.now) for place in missing]):
            tx.step("insert")
            written |= tx.dialect.insert_new(tx.conn, jobs, chunk)
        lost = [position for position in missing if position not in written]
        taken = _taken_keys(tx, [requests[position] for position in lost], latest=True)
        for position in lost:
            holder = taken.get((requests[position].type, requests[position].key or ""))
            if holder is not None:
                _refuse_duplicate(tx, requests[position], holder, written)
                holders[position] = holder
        # Without a holder, that job has ended meanwhile and its key is free again.
        missing = [position for position in lost if position not in holders]
    return written, holders


def _refuse_duplicate(tx: Transaction, request: Request, holder: int, written: Mapping[int, int]) -> None:
    if request.on_conflict != "raise":
        return
    if written:  # one by one, since a DELETE of many walks, and locks, other rows on MySQL where the table is small
        undo = delete(jobs).where(jobs.c.id == bindparam("written"))
        tx.execute("undo", undo, [{"written": job_id} for job_id in sorted(written.values())])
    raise _duplicate(request, holder)


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


def _row(position: int, request: Request, start: Start, batch: str, now: datetime) -> dict[str, Any]:
    ended = start.state in FINAL
    keeps_key = not ended or request.key_for == "ever"
    return {
        "type": request.type,
        "args": request.args,
        "state": start.state.value,
        "reason": start.reason,
        "reason_text": closing_text(start.reason, start.culprit),
        "reason_job_id": start.culprit,
        "container": False,
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
        "given": list(request.given) or None,
        "cancel_now": False,
        "unmet_deps": start.unmet,
        "closed_gates": 0,
        "open_children": 0,
        "done_children": 0,
        "failed_children": 0,
        "cancelled_children": 0,
        "batch": batch,
        "batch_no": position,
        "created_at": now,
        "updated_at": now,
        "ended_at": now if ended else None,
    }


def _insert_edges(
    tx: Transaction,
    upstreams: Sequence[Mapping[Upstream, str]],
    starts: Mapping[int, Start],
    written: Mapping[int, int],
    ids: Mapping[int, int],
    known: Mapping[int, Known],
) -> None:
    """All edges of the new jobs. One to a job that looked open stays unchecked: its end may be under way."""
    fresh = set(written.values())
    rows: dict[tuple[int, int], dict[str, Any]] = {}
    for position, job_id in sorted(written.items()):
        edges = zip(upstreams[position].items(), starts[position].edges, strict=True)
        for place, ((edge, kind), standing) in enumerate(edges):
            upstream = edge.job_id if edge.job_id is not None else ids[edge.position or 0]
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
            rows.setdefault((job_id, upstream), row)
    for chunk in _chunks(list(rows.values()), EDGES_PER_STATEMENT):
        tx.execute("edges", insert(job_deps), chunk)
    if not all(row["checked"] for row in rows.values()):
        wake(tx)
    unmet = Counter(row["job_id"] for row in rows.values() if not row["satisfied"])
    for position, job_id in written.items():
        if unmet[job_id] != starts[position].unmet:  # a lost key made one job of two that it waits for
            tx.execute("unmet", update(jobs).where(jobs.c.id == job_id).values(unmet_deps=unmet[job_id]))
