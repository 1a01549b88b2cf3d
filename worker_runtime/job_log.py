"""The exception that ends an attempt, and what hooks raise, told to the application's own logging."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from sqljobs.schema.errors import NoRunningJob
from sqljobs.schema.payloads import safe_traceback
from sqljobs.worker_runtime.current_job import current_job
from sqljobs.worker_runtime.endings import Cancel, Snooze

LOGGER = "sqljobs.job"


def log_exception(error: BaseException, own_pid: int | None = None) -> None:
    """Log `error` with its traceback on `sqljobs.job`, with `job_id`, `attempt` and `job_type` as extra fields.

    Not for `Snooze` and `Cancel`, which are no errors. Whatever the application's log handlers do, nothing is raised.
    `own_pid`: the job's process; a copy that the handler has forked says nothing."""
    if own_pid is not None and os.getpid() != own_pid:
        return
    # What it has printed comes before what became of it, should both go to one file.
    for say in (_flush, _log):
        try:
            say(error)
        except BaseException:  # noqa: BLE001 - a stream, a log handler, the exception's own class: the end is to be written
            continue


def _flush(_error: BaseException) -> None:
    sys.stdout.flush()


def _log(error: BaseException) -> None:
    if isinstance(error, (Snooze, Cancel)):
        return
    logger, kind = logging.getLogger(LOGGER), type(error).__name__
    about = _about()
    if not about:
        logger.error("a handler ended with %s", kind, exc_info=error)
        return
    words = "attempt %s of job %s (%s) ended with %s"
    logger.error(words, about["attempt"], about["job_id"], about["job_type"], kind, exc_info=error, extra=about)


def log_hook(name: str, error: BaseException, say: Callable[[str], object]) -> None:
    """Log what the hook `name` has raised, in the same way; `say` prints it where the log does not."""
    logger = logging.getLogger(LOGGER)
    try:
        if logger.hasHandlers():
            say(f"the hook {name} ended with {type(error).__name__}\n{safe_traceback(error).rstrip()}")
        logger.error("the hook %s ended with %s", name, type(error).__name__, exc_info=error, extra=_about())
    except BaseException:  # noqa: BLE001 - a log handler, the exception's own class: the job goes on
        say(f"the hook {name} failed, and its failure could not be logged")


def _about() -> dict[str, Any]:
    try:
        job = current_job()
    except NoRunningJob:
        return {}
    return {"job_id": job.id, "attempt": job.attempt, "job_type": job.type}
