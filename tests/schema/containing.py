"""Containers, and what an operator does to them: the moves that tests of graphs begin with."""

from typing import Any

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.enqueue import Within, enqueue_many
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.schema.audit import audit
from tests.schema.playing import no_options, work_off_all

FAILED = Outcome(Cause.FAIL, error="no")


def put_all(database: Database, *specs: JobSpec) -> list[int]:
    """Enqueue them in one call and commit."""
    with database.engine.begin() as conn:
        return sqljobs.enqueue_many(conn, specs)


def act(database: Database, name: str, *ids: int, **options: Any) -> list[int]:
    """`sqljobs.cancel`, `retry` or `skip`."""
    with database.engine.begin() as conn:
        changed: list[int] = getattr(sqljobs, name)(conn, *ids, **options)
        return changed


def add_below(database: Database, job_id: int, *specs: JobSpec) -> list[int]:
    """What the handler of a running job enqueues in it by a session of its own."""
    below = [spec if spec.given.get("parent") is not None else spec.options(parent=job_id) for spec in specs]
    within = Within(running=job_id)
    made = database.transaction("put", lambda tx: enqueue_many(tx, below, no_options, no_check, within=within))
    return [one.id for one in made]


def no_check(_job_type: str, _args: object) -> None:
    """Any arguments will do."""


def box(*members: JobSpec, **options: Any) -> list[JobSpec]:
    """A container and its members, which are copies."""
    outer = JobSpec("box", container=True, **options)
    return [outer, *(member.options(parent=outer) for member in members)]


def assert_sound(database: Database) -> None:
    """Whatever was played, the rows are sound in the end, when nothing is left to do."""
    work_off_all(database)
    found = database.read("audit", lambda tx: audit(tx, settled=False))
    assert found == []
    faults = sqljobs.doctor(database.engine)
    assert faults == []
