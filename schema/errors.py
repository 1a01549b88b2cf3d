"""The errors that reach a user: each is one clear line that says what to do next."""

from __future__ import annotations


class Error(Exception):
    """Root of all errors that sqljobs raises on purpose."""


class InvalidJob(Error, ValueError):
    """A job, an option or an argument was refused at the door; nothing was written."""


class UnknownJob(Error, LookupError):
    """No job has this id."""


class UnknownParent(UnknownJob):
    """No job has the id that was given as a parent."""


class CycleError(Error, ValueError):
    """The jobs of one call would wait for each other in a circle."""


class DuplicateKey(Error):
    """An open job already has this (type, key); `job_id` is that job. The transaction stays usable."""

    def __init__(self, message: str, job_id: int) -> None:
        super().__init__(message)
        self.job_id = job_id


class Refused(Error):
    """The request is well formed, but the job's state does not allow it."""


class Conflict(Error):
    """Another transaction was at the same jobs, and the database gave up this one."""


class NotInitialised(Error):
    """The tables are missing: run `sqljobs init`."""


def tables_missing(schema: str | None) -> NotInitialised:
    """The one way to say it: names the schema that was looked in, since Python code does not read sqljobs.toml."""
    if schema is None:
        return NotInitialised(
            "the tables of sqljobs are missing: run `sqljobs init`, or name the schema they are in (SQLJOBS_SCHEMA)"
        )
    return NotInitialised(
        f"the tables of sqljobs are missing in schema {schema!r}: run `sqljobs --schema {schema} init`"
    )


class SchemaOutdated(Error):
    """The tables are of another version than this code."""


class DatabaseUnavailable(Error):
    """The database cannot be reached or used."""


class BadHandlers(Error):
    """A handlers module does not import, or registers a name twice."""


class NoRunningJob(Error):
    """`current_job()` was called outside a job's child process."""


class WaitTimeout(Error, TimeoutError):
    """`wait` gave up before all jobs had ended."""


class LimitTimeout(Error, TimeoutError):
    """`take` gave up before the limit had room."""
