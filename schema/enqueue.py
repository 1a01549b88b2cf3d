"""Insert jobs and their edges in the caller's transaction; takes no lock on any existing job but a parent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from sqljobs.schema.chunks import chunks
from sqljobs.schema.enqueue_plan import (
    Call,
    Known,
    Parent,
    first_of_key,
    levels_of,
    named_parents,
    named_positions,
    refuse_leaves,
    starts_of,
    upstreams_of,
)
from sqljobs.schema.enqueue_rows import KeyLost, Rows, duplicate, insert_edges, insert_jobs, taken_keys, undo
from sqljobs.schema.errors import UnknownJob
from sqljobs.schema.order import Moment, in_order
from sqljobs.schema.parents import count_new, lock_parents, refuse_circles
from sqljobs.schema.renderings import shown
from sqljobs.schema.specs import CheckArgs, DefaultsOf, JobSpec, Request, check_request
from sqljobs.schema.states import State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.wake import wake


@dataclass(frozen=True)
class Enqueued:
    """The id that a spec got, and whether this call wrote the row."""

    id: int
    created: bool


@dataclass(frozen=True)
class Within:
    """Where a call comes from. `running`: the job whose handler makes it, which may get members while it runs.
    `members`: specs that become its members; `legacy`: what all of the call inherit. `at_end`: it is part of the job's
    end, which waits for no container that a caller holds."""

    running: int | None = None
    members: frozenset[JobSpec] = frozenset()
    legacy: Mapping[str, Any] | None = None
    at_end: bool = False


def enqueue_many(
    tx: Transaction,
    specs: Sequence[JobSpec],
    defaults_of: DefaultsOf,
    check_args: CheckArgs,
    *,
    batch: str | None = None,
    awaits_child: bool = False,
    within: Within = Within(),
    refs: Sequence[str | None] = (),
) -> list[Enqueued]:
    """Insert all of `specs` and their edges, in a number of statements that grows only with the bulk, and the depth.

    `after` and `parent` may name ids and other specs of the call. `batch`: a token of 32 characters for this call, for
    who must settle a lost COMMIT. `awaits_child`: a container without members does not end at once. `refs`: what the
    caller calls the specs, for errors. Everything is checked before the first row is written: raises `InvalidJob`,
    `CycleError`, `UnknownJob`, `Refused` for a parent that takes no members, or `DuplicateKey`, with the transaction as
    it was."""
    requests = [_placed(check_request(spec, defaults_of, check_args), within) for spec in specs]
    if not requests:
        return []
    names = _names(requests, refs)
    latest = False
    while True:
        call, order, first, existing = _plan(tx, requests, names, within, latest, awaits_child)
        rows = Rows(call, starts_of(tx.now, call, order), batch or uuid.uuid4().hex, existing)
        try:
            insert_jobs(tx, rows, levels_of(call, order))
        except KeyLost:  # of a container whose members are here, too: they go to the one that took it
            undo(tx, rows.written)
            latest = True
            continue
        insert_edges(tx, rows)
        count_new(tx, rows)
        if any(rows.starts[position].state is State.READY for position in rows.written):
            wake(tx)
        return [Enqueued(rows.ids[first[at]], at in rows.written) for at in range(len(requests))]


def _placed(request: Request, within: Within) -> Request:
    if request.spec in within.members and request.parent is None:
        request = replace(request, parent=within.running)
    return request.heir(within.legacy) if within.legacy else request


def _names(requests: Sequence[Request], refs: Sequence[str | None]) -> list[str]:
    given = refs or [None] * len(requests)
    numbered = enumerate(zip(requests, given, strict=True), start=1)
    return [f"{one.type} (number {number})" if ref is None else shown(ref) for number, (one, ref) in numbered]


def _plan(
    tx: Transaction,
    requests: Sequence[Request],
    names: Sequence[str],
    within: Within,
    latest: bool,
    awaits_child: bool,
) -> tuple[Call, list[Moment], list[int], dict[int, int]]:
    """What the call will write, with all that it names locked or read; nothing is written yet."""
    first = first_of_key(requests)
    named = [[first[position] for position in positions] for positions in named_positions(requests)]
    above = [None if position is None else first[position] for position in named_parents(requests)]
    existing = _existing(tx, requests, first, latest)
    # A job that is there already stays as it is: it gets no parent, and waits for nothing that is named here.
    above = [None if at in existing else position for at, position in enumerate(above)]
    waiting = [[] if at in existing else positions for at, positions in enumerate(named)]
    order = in_order(waiting, names, above)
    refuse_leaves(requests, above, existing)
    parents = lock_parents(tx, requests, above, existing, within.running, at_end=within.at_end)
    known = _read_upstreams(tx, {item for request in requests for item in request.waits_for if isinstance(item, int)})
    known |= _read_upstreams(tx, set(existing.values()) - known.keys(), latest=latest)
    upstreams = upstreams_of(requests, named, first, existing)
    new = {at for at in range(len(requests)) if at not in existing and at == first[at]}
    call = Call(_heirs(requests, parents, order), upstreams, parents, new, known, awaits_child)
    refuse_circles(tx, call, waiting)
    return call, order, first, existing


def _heirs(
    requests: Sequence[Request], parents: Sequence[Parent | int | None], order: Sequence[Moment]
) -> list[Request]:
    """The requests with what they inherit from their parents, which begin before them."""
    heirs = list(requests)
    for position, is_end in order:
        parent = parents[position]
        if not is_end and parent is not None:
            legacy = heirs[parent].legacy if isinstance(parent, int) else parent.legacy
            heirs[position] = heirs[position].heir(legacy)
    return heirs


def _existing(tx: Transaction, requests: Sequence[Request], first: Sequence[int], latest: bool) -> dict[int, int]:
    """Position -> id of the job that holds its key already. Raises `DuplicateKey` where that was asked for."""
    taken = taken_keys(tx, requests, latest=latest)
    found: dict[int, int] = {}
    for position, request in enumerate(requests):
        holder = taken.get((request.type, request.key)) if request.key is not None else None
        if request.on_conflict == "raise" and (holder is not None or first[position] != position):
            raise duplicate(request, holder or 0)
        if holder is not None:
            found[position] = holder
    return found


def _read_upstreams(tx: Transaction, ids: set[int], *, latest: bool = False) -> dict[int, Known]:
    """`latest`: also those that the snapshot of the caller does not show."""
    found: dict[int, Known] = {}
    for chunk in chunks(sorted(ids)):
        chosen = select(jobs.c.id, jobs.c.state, jobs.c.reason, jobs.c.reason_job_id).where(jobs.c.id.in_(chunk))
        for row in tx.execute("upstreams", tx.dialect.latest(chosen, index="PRIMARY") if latest else chosen):
            culprit = row.reason_job_id if row.reason == "dependency" and row.reason_job_id else row.id
            found[row.id] = Known(row.state, row.reason, culprit)
    for missing in sorted(ids - found.keys()):
        raise UnknownJob(f"after: there is no job {missing}")
    return found
