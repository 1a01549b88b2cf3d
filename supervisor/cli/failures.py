"""From an exception to one line on stderr, a JSON error where that was asked for, and the exit code."""

from __future__ import annotations

import os
import traceback

import click
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from sqljobs.schema.errors import (
    BadHandlers,
    CycleError,
    DatabaseUnavailable,
    DuplicateKey,
    Error,
    InvalidJob,
    NotInitialised,
    Refused,
    SchemaOutdated,
    UnknownJob,
    WaitTimeout,
)
from sqljobs.schema.failures import one_line
from sqljobs.schema.renderings import safe_text
from sqljobs.schema.transactions import CommitUnknown
from sqljobs.supervisor.cli.call import Call
from sqljobs.supervisor.cli.output import OutputLost, clean, print_json, write
from sqljobs.supervisor.cli.secrets import redacted

ANSWER_IS_NO, WRONG_USAGE, TIMED_OUT, NO_DATABASE, OUR_FAULT, INTERRUPTED = 1, 2, 3, 4, 70, 130
EXIT_CODES: dict[type[Exception], int] = {
    UnknownJob: ANSWER_IS_NO,
    Refused: ANSWER_IS_NO,
    DuplicateKey: ANSWER_IS_NO,
    InvalidJob: WRONG_USAGE,
    CycleError: WRONG_USAGE,
    BadHandlers: WRONG_USAGE,
    WaitTimeout: TIMED_OUT,
    DatabaseUnavailable: NO_DATABASE,
    NotInitialised: NO_DATABASE,
    SchemaOutdated: NO_DATABASE,
}
NO_PERMISSION = "42501"  # PostgreSQL; other databases call it an operational error
MESSAGE_BYTES = 2000


def report(error: BaseException, call: Call, exit_code: int | None = None) -> int:
    """Say what went wrong and what to do next; returns the exit code: `exit_code`, else the one of its class."""
    if isinstance(error, click.UsageError):
        error.show()
        message, code = error.format_message(), WRONG_USAGE
    else:
        message, code = _told(error)
        code = exit_code or code
        if code == OUR_FAULT and os.environ.get("SQLJOBS_DEBUG") == "1":
            lines = "".join(traceback.format_exception(error))
            write(redacted(safe_text(lines, limit_bytes=1 << 20), call.secrets), to_stderr=True)
        message = redacted(clean(message, MESSAGE_BYTES), call.secrets)
        write(f"sqljobs: {message}\n", to_stderr=True)
    if call.as_json:
        print_json({"error": message, "code": code})
    return code


def _told(error: BaseException) -> tuple[str, int]:
    if isinstance(error, Error):
        code = next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), WRONG_USAGE)
        return f"{error}{_hint(error)}", code
    if isinstance(error, CommitUnknown):
        return (
            f"the connection broke at COMMIT ({error}), so whether it was done is unknown:"
            " look with `sqljobs list`, then try again"
        ), NO_DATABASE
    if isinstance(error, (OperationalError, InterfaceError)) or _is_forbidden(error):
        return f"the database cannot be used: {one_line(error)}; check its rights and that it runs", NO_DATABASE
    if isinstance(error, OutputLost):
        return f"done, but the output could not be written: {error}; send it elsewhere", OUR_FAULT
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    return (
        f"a fault of ours: {type(error).__name__}: {clean(error)} ({_place(error)}); please report it,"
        " with what SQLJOBS_DEBUG=1 shows"
    ), OUR_FAULT


def _hint(error: Error) -> str:
    match error:
        case UnknownJob():
            return "; `sqljobs list` shows those there are"
        case DuplicateKey(job_id=job_id) if job_id:
            return f"; look at it with `sqljobs show {job_id}`, or take --on-conflict return"
        case WaitTimeout():
            return "; wait on, or look with `sqljobs show`"
    return ""


def _is_forbidden(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) == NO_PERMISSION


def _place(error: BaseException) -> str:
    """File and line of the innermost frame that is ours, else of the innermost."""
    place = "place unknown"
    for frame, line in traceback.walk_tb(error.__traceback__):
        is_ours = str(frame.f_globals.get("__name__", "")).startswith("sqljobs")
        if is_ours or place == "place unknown":
            place = f"{os.path.basename(frame.f_code.co_filename)}, line {line}"
    return place
