"""What tests of the doctor do to rows by hand, behind the back of the state machine."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update

from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.supervisors import Registration, register
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import ALICE, put


def now() -> datetime:
    return datetime.now(UTC)


def long_ago() -> datetime:
    """Longer ago than any supervisor may take to act."""
    return now() - timedelta(minutes=30)


def change(database: Database, job_id: int, **values: Any) -> None:
    """Write columns of the job's row."""
    with database.engine.begin() as conn:
        assert conn.execute(update(jobs).where(jobs.c.id == job_id).values(**values)).rowcount == 1


def change_edges(database: Database, job_id: int, **values: Any) -> None:
    """Write columns of all edges of the job."""
    with database.engine.begin() as conn:
        assert conn.execute(update(job_deps).where(job_deps.c.job_id == job_id).values(**values)).rowcount


def change_attempts(database: Database, job_id: int, **values: Any) -> None:
    """Write columns of all attempts of the job."""
    with database.engine.begin() as conn:
        assert conn.execute(update(job_attempts).where(job_attempts.c.job_id == job_id).values(**values)).rowcount


def register_alice(database: Database, **values: Any) -> None:
    """The row of the supervisor that `playing.ALICE` stands for, with these columns."""
    id_, name = ALICE.owner.split("/")[1], ALICE.name
    register(database, Registration(id_, name, "h", "b", 1, 1, 4, ["t"], ALICE.ttl, 10.0))
    with database.engine.begin() as conn:
        conn.execute(update(job_supervisors).where(job_supervisors.c.id == id_).values(**values or {"slots": 4}))


def blocked_pair(database: Database) -> tuple[int, int]:
    """A ready job and one that waits for it, the edge looked at."""
    first = put(database)
    second = put(database, after=[first])
    change_edges(database, second, checked=True)
    return first, second


def family(database: Database) -> tuple[int, int]:
    """A container and its one open child."""
    parent = put(database, "box", container=True)
    return parent, put(database, parent=parent)
