"""More of breaking.py: each function breaks one rule of dependencies or containers by hand."""

from sqlalchemy import delete

from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.breaking import FAILED, breaks
from tests.schema.doctoring import blocked_pair, change, change_edges, family, long_ago, now
from tests.schema.playing import put, run


@breaks("unchecked")
def nobody_looks(database: Database) -> int:
    first, job_id = blocked_pair(database)
    run(database, first)
    change_edges(database, job_id, satisfied=False, checked=False)
    change(database, first, ended_at=long_ago())
    change(database, job_id, state="blocked", unmet_deps=1, updated_at=long_ago())
    return job_id


@breaks("unmet_deps")
def counts_too_many(database: Database) -> int:
    _, job_id = blocked_pair(database)
    change(database, job_id, unmet_deps=2)
    return job_id


@breaks("blocked")
def blocked_by_nothing(database: Database) -> int:
    job_id = put(database)
    change(database, job_id, state="blocked")
    return job_id


@breaks("satisfied")
def satisfied_too_soon(database: Database) -> int:
    _, job_id = blocked_pair(database)
    change_edges(database, job_id, satisfied=True)
    change(database, job_id, state="ready", unmet_deps=0)
    return job_id


@breaks("unsatisfied")
def never_satisfied(database: Database) -> int:
    first, job_id = blocked_pair(database)
    run(database, first)
    change_edges(database, job_id, satisfied=False)
    change(database, job_id, state="blocked", unmet_deps=1)
    return job_id


@breaks("not_cancelled")
def waits_in_vain(database: Database) -> int:
    first, job_id = blocked_pair(database)
    run(database, first, FAILED)
    change(database, job_id, state="blocked", ended_at=None, reason=None)
    return job_id


@breaks("wrongly_cancelled")
def cancelled_for_nothing(database: Database) -> int:
    first, job_id = blocked_pair(database)
    change(database, job_id, state="cancelled", reason="dependency", reason_job_id=first, ended_at=now())
    return job_id


@breaks("missing_job")
def upstream_lost(database: Database) -> int:
    first, job_id = blocked_pair(database)
    with database.engine.begin() as conn:
        conn.execute(delete(jobs).where(jobs.c.id == first))
    return job_id


@breaks("missing_job")
def dependent_lost(database: Database) -> int:
    _, job_id = blocked_pair(database)
    with database.engine.begin() as conn:
        conn.execute(delete(jobs).where(jobs.c.id == job_id))
    return job_id


@breaks("children")
def counts_too_many_children(database: Database) -> int:
    parent, _ = family(database)
    change(database, parent, open_children=2)
    return parent


@breaks("children")
def counts_no_failed_child(database: Database) -> int:
    parent, child = family(database)
    run(database, child, FAILED)
    change(database, parent, done_children=1, failed_children=0)
    return parent


@breaks("parent")
def open_in_an_ended_container(database: Database) -> int:
    parent, child = family(database)
    change(database, parent, state="failed", ended_at=now())
    return child


@breaks("parent")
def open_in_no_container(database: Database) -> int:
    child = put(database)
    change(database, child, parent_id=child + 1000)
    return child


@breaks("roll_up")
def container_never_ends(database: Database) -> int:
    parent, child = family(database)
    run(database, child)
    change(database, parent, state="waiting", ended_at=None)
    return parent


@breaks("gates")
def gate_of_no_container(database: Database) -> int:
    _, child = family(database)
    change(database, child, state="blocked", closed_gates=1)
    return child


@breaks("not_needed")
def waits_for_no_failure(database: Database) -> int:
    first = put(database)
    job_id = put(database, after_failed=[first])
    run(database, first)
    change(database, job_id, state="ready", ended_at=None, reason=None, reason_text=None)
    return job_id
