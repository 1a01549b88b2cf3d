"""What an author calls to put jobs into the queue, in the transaction of a Session or Connection of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqljobs.schema import cancel as cancelling
from sqljobs.schema import enqueue as enqueuing
from sqljobs.schema import explain as explaining
from sqljobs.schema import retry as retrying
from sqljobs.schema.callers import Caller, callers_transaction
from sqljobs.schema.columns import JsonText
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.job_info import JobInfo
from sqljobs.schema.jobs_read import read_jobs
from sqljobs.schema.payloads import from_json, to_json
from sqljobs.schema.reason import Reason
from sqljobs.schema.specs import JobSpec
from sqljobs.schema.transactions import Transaction
from sqljobs.schema.values import check_ids
from sqljobs.worker_runtime.arguments import bind_arguments
from sqljobs.worker_runtime.current_job import running_job_id
from sqljobs.worker_runtime.registry import defaults_of, lookup


def enqueue(session: Caller, job: str | JobSpec, args: Mapping[str, Any] | None = None, /, **options: Any) -> int:
    """Insert one job in the caller's transaction and return its id; it exists if and only if the caller commits.

    `job` is a type name, with `args` by name, or a spec. Options: group, weight, priority, run_after, after, after_any,
    after_failed, parent, container, key, on_conflict, key_for, max_attempts, timeout. With a `key` that an open job
    holds, the id of that one is returned and nothing is written, or `DuplicateKey` is raised, as `on_conflict` says. A
    container stays open until it has had a member; a `parent` is locked until the transaction is over. Commits nothing.
    Raises `InvalidJob`, `UnknownJob`, `CycleError`, `Refused` for a parent that takes no members, `DuplicateKey`,
    `NotInitialised`, and `TypeError` for a wrong first argument or an unknown option; the transaction then stays as it
    was."""
    with callers_transaction("enqueue", session) as tx:
        return _write(tx, [spec_of(job, args, options)], awaits_child=True)[0].id


def enqueue_many(session: Caller, specs: Iterable[JobSpec], /) -> list[int]:
    """Insert a whole graph, all or none: specs name each other in `after` and its kin, and in `parent`. Returns ids in
    input order.

    A container without members ends at once. Errors as for `enqueue`."""
    listed = [specs] if isinstance(specs, JobSpec) else list(specs)
    with callers_transaction("enqueue_many", session) as tx:
        return [enqueued.id for enqueued in _write(tx, listed)]


def _write(tx: Transaction, specs: Sequence[JobSpec], *, awaits_child: bool = False) -> list[enqueuing.Enqueued]:
    within = enqueuing.Within(running=running_job_id())
    return enqueuing.enqueue_many(tx, specs, defaults_of, check_args, awaits_child=awaits_child, within=within)


def spec_of(job: str | JobSpec, args: Mapping[str, Any] | None, options: Mapping[str, Any]) -> JobSpec:
    if not isinstance(job, JobSpec):
        return JobSpec(job, args, **options)
    if args is not None:
        raise InvalidJob("a spec has its arguments already: leave args out")
    return job.options(**options) if options else job


def check_args(job_type: str, text: JsonText | None) -> None:
    """Refuse arguments that the handler could not be called with, where it is known in this process."""
    known = lookup(job_type)
    if known is not None:
        bind_arguments(known.function, from_json(text))


def get_job(session: Caller, job_id: int, /) -> JobInfo:
    """All that the rows say of one job, as `show --json`. Raises `UnknownJob`."""
    with callers_transaction("get_job", session) as tx:
        return read_jobs(tx, check_ids([job_id]))[0]


def explain(session: Caller, job_id: int, /) -> list[Reason]:
    """Why a job is not running, the reason to remove first in front; empty when it may start at the next tick.

    Reads only. Raises `UnknownJob`."""
    with callers_transaction("explain", session) as tx:
        return list(explaining.explain(tx, check_ids([job_id])[0]).reasons)


def cancel(session: Caller, /, *ids: int, now: bool = False) -> list[int]:
    """Cancel jobs, all or none, when the caller commits; returns those that this call changed.

    A claimed job is killed by its supervisor within a heartbeat. Raises `UnknownJob` and `Refused`."""
    with callers_transaction("cancel", session, changes=True) as tx:
        return cancelling.cancel(tx, check_ids(ids), now=now)


def retry(session: Caller, /, *ids: int, dry_run: bool = False, from_scratch: bool = False) -> list[int]:
    """Start ended jobs again, all or none; returns their ids and those of the jobs that this reopens.

    Of a container all that failed in it, or was cancelled by an operator. `from_scratch`: what is retried forgets its
    checkpoint, its steps and its progress. Raises `UnknownJob` and `Refused`."""
    with callers_transaction("retry", session, changes=True) as tx:
        return retrying.retry(tx, check_ids(ids), dry_run=dry_run, from_scratch=from_scratch)


def skip(session: Caller, /, *ids: int, result: object = None, dry_run: bool = False) -> list[int]:
    """Declare failed jobs done, with `result`, all or none, and reopen what their failure had closed; returns as
    `retry`.

    Raises `InvalidJob` for a result that is no JSON, `UnknownJob`, and `Refused` for a job that has not failed."""
    text = to_json(result, where="result")
    with callers_transaction("skip", session, changes=True) as tx:
        return retrying.skip(tx, check_ids(ids), text, dry_run=dry_run)
