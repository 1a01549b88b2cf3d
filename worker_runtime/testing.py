"""For tests of handlers: run one without a database, and look at what a transaction has enqueued."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from sqljobs.schema import outcomes
from sqljobs.schema.amounts import numbers_of
from sqljobs.schema.callers import Caller
from sqljobs.schema.claim import Lease
from sqljobs.schema.enqueue_plan import named_parents, named_positions
from sqljobs.schema.errors import CycleError, InvalidJob
from sqljobs.schema.job_info import JobInfo, Progress
from sqljobs.schema.jobs_read import Selection, read_jobs, select_ids
from sqljobs.schema.joined import Joined
from sqljobs.schema.order import in_order
from sqljobs.schema.outcomes import Cause, Decision, Standing, decide
from sqljobs.schema.payloads import from_json, safe_traceback, to_json, to_plain
from sqljobs.schema.renderings import shown
from sqljobs.schema.specs import JobSpec, Request, check_request
from sqljobs.schema.states import OPEN, State
from sqljobs.schema.upstream import Upstream
from sqljobs.schema.values import check_count, check_name
from sqljobs.worker_runtime.enqueue import check_args
from sqljobs.worker_runtime.inline import run_here
from sqljobs.worker_runtime.job_session import RaisedInside
from sqljobs.worker_runtime.memory_job import Joining, MemoryJob
from sqljobs.worker_runtime.registry import JobType, defaults_of, lookup
from sqljobs.worker_runtime.stop_request import ENDS, StopRequest

JOB_ID = 1


@dataclass(frozen=True)
class Outcome:
    """What would be written of one attempt: the state of its job after it, and the cause of its end.

    `result`: as it is read back, plain JSON values. `error`: the traceback, or what was wrong with arguments or result.
    `progress`: the last one. `checkpoint`: what the next attempt would find. `spent`: by name, with what was taken.
    `enqueued`: members, then followers; none unless the attempt ended `done`."""

    state: str
    cause: str
    result: Any
    error: str | None
    progress: Progress | None
    checkpoint: Any
    spent: Mapping[str, int | float]
    enqueued: tuple[JobSpec, ...]


def run_inline(
    spec: JobSpec,
    *,
    attempt: int = 1,
    checkpoint: Any = None,
    upstream: Iterable[Upstream] = (),
    stopping: str | None = None,
    devices: Mapping[str, Sequence[str]] | None = None,
    session: Session | None = None,
) -> Outcome:
    """Run the handler of `spec` here and now, without a database and without a process of its own.

    `current_job()` works in it, in memory: id 1, attempt `attempt`, `checkpoint` as left by an earlier attempt,
    `upstream`, `stopping` and `devices` (units by name) as given; limits have no end (`spend` and `take` return
    Infinity). Timeout and memory are not applied. `session`: one of a test database, for steps with `session=True` and
    `finalize_with`; what they write is in its transaction. What the handler raises is in the outcome. Raises
    `InvalidJob` for a spec that could not be enqueued, a type that this process has not imported, or a session that is
    wanted and not given."""
    job_type, asked = _checked(spec)
    request = _request_to_stop(stopping)
    attempt = check_count("attempt", attempt)
    limit = max(attempt, asked.max_attempts)
    joining = Joining(session)
    job = MemoryJob(
        _lease(asked, attempt, limit, devices or {}),
        joining,
        checkpoint=to_json(checkpoint, where="checkpoint"),
        upstream=[replace(one, result=to_plain(one.result, where="result")) for one in upstream],
        request=request,
    )
    told = _run(job, job_type, joining, request)
    standing = Standing(attempt, limit, asked.max_attempts, cancel_requested=stopping == "cancel")
    decision = decide(told, standing, job_type.backoff, random.Random())
    return _outcome(told, decision, job)


def _request_to_stop(reason: str | None) -> StopRequest:
    request = StopRequest()
    if reason is not None:
        if reason not in ENDS:
            raise InvalidJob(f"stopping must be one of {', '.join(ENDS)}, not {shown(reason)}")
        request.ask(reason, ENDS[reason][1])
    return request


def _checked(spec: JobSpec) -> tuple[JobType, Request]:
    request = check_request(spec, defaults_of, lambda _type, _args: None)  # bad ones end the attempt
    if request.container:
        raise InvalidJob(f"the container {request.type!r} never runs: run a member of it")
    job_type = lookup(request.type)
    if job_type is None:
        raise InvalidJob(f"no handler {request.type!r} is known here: import the module that declares it")
    return job_type, request


def _lease(request: Request, attempt: int, limit: int, devices: Mapping[str, Sequence[str]]) -> Lease:
    return Lease(
        job_id=JOB_ID,
        attempt=attempt,
        owner="run_inline",
        supervisor="run_inline",
        type=request.type,
        args=from_json(request.args),
        group=request.group,
        key=request.key,
        batch=None,
        max_attempts=limit,
        timeout=request.timeout,
        parent=request.parent if isinstance(request.parent, int) else None,
        devices={name: tuple(units) for name, units in devices.items()},
    )


def _run(job: MemoryJob, job_type: JobType, joining: Joining, request: StopRequest) -> outcomes.Outcome:
    told = run_here(job, job_type, request=request).outcome
    if told.cause is Cause.DONE:
        told = _with_end(job, job_type, told, joining)
    if joining.fault is not None:
        raise joining.fault  # the test's, whatever the handler made of it
    return told


def _with_end(job: MemoryJob, job_type: JobType, told: outcomes.Outcome, joining: Joining) -> outcomes.Outcome:
    """What is written with a good end, and may be refused."""
    specs = [*job.spawned.children, *job.spawned.followers]
    try:
        requests = [check_request(spec, defaults_of, check_args) for spec in specs]
        in_order(named_positions(requests), [request.type for request in requests], named_parents(requests))
    except (InvalidJob, CycleError) as error:
        return outcomes.Outcome(Cause.ERROR, error=f"what the handler has enqueued was refused: {error}")
    try:
        job.run_finalizers(joining)
    except RaisedInside as raised:
        fatal = job_type.is_fatal(Cause.ERROR, raised.error)
        return outcomes.Outcome(Cause.ERROR, error=safe_traceback(raised.error), fatal=fatal)
    return told


def _outcome(told: outcomes.Outcome, decision: Decision, job: MemoryJob) -> Outcome:
    is_done = decision.cause is Cause.DONE
    spawned = job.spawned
    state = State.WAITING if is_done and spawned.children else decision.state
    return Outcome(
        state=state.value,
        cause=decision.cause.value,
        result=from_json(told.result, where="result") if is_done else None,
        error=told.error,
        progress=job.last_progress,
        checkpoint=job.last_checkpoint,
        spent=numbers_of(job.account.spent) or {},
        enqueued=(*spawned.children, *spawned.followers) if is_done else (),
    )


def enqueued(session: Caller, type: str | None = None) -> list[JobInfo]:
    """The open jobs, as the transaction of `session` sees them, oldest first; of one type, if it is given.

    Raises `TypeError` for anything but a Session or Connection, `NotInitialised`."""
    types = () if type is None else (check_name("type", type),)
    meant = Selection(states=sorted(state.value for state in OPEN), types=types)
    return Joined.to("enqueued", session).read("enqueued", lambda tx: read_jobs(tx, sorted(select_ids(tx, meant))))
