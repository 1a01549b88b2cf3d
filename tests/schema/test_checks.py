"""The tables themselves refuse rows that the state machine cannot make, whoever writes them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, insert, update
from sqlalchemy.exc import DBAPIError

from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import put, row, run, set_off

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
LEASE = {"lease_owner": "x/1", "lease_expires": NOW, "heartbeat_at": NOW}

BROKEN: dict[str, list[dict[str, Any]]] = {
    "ready": [
        {"state": "waitin"},
        {"state": "READY"},
        {"in_flight": True},
        {"in_flight": True, **LEASE},
        {"state": "leased"},
        {"state": "running", "in_flight": True},
        {"state": "running", **LEASE},
        *({**LEASE, "state": "leased", "in_flight": True, name: None} for name in LEASE),
        *({name: value} for name, value in LEASE.items()),
        {"state": "done"},
        {"state": "failed"},
        {"state": "cancelled"},
        {"ended_at": NOW},
        {"attempt": -1},
        {"attempt": 6},
        {"max_attempts": -1},
        {"unmet_deps": -1},
        {"unmet_deps": 1},
        {"closed_gates": 1},
        {"closed_gates": -1},
        {"open_children": -1},
        {"container": True},
        {"result": "1"},
        {"weight": 0},
        {"priority": 1001},
        {"priority": -1001},
        {"group_key": None},
        {"type": None},
    ],
    "running": [
        {"state": "ready"},
        {"state": "done"},
        {"state": "scheduled"},
        {"unmet_deps": 1},
        {"attempt": 6},
        {"lease_owner": None},
        {"in_flight": False},
    ],
    "done": [{"state": "ready"}, {"ended_at": None}, {"state": "failed"}, {"state": "cancelled"}, LEASE],
}


@pytest.mark.parametrize("state", list(BROKEN))
def test_broken_job_rows_are_refused(engine: Engine, database: Database, state: str) -> None:
    job_id = put(database)
    if state == "running":
        set_off(database, job_id)
    elif state == "done":
        run(database, job_id)
    before = row(database, job_id)
    assert before.state == state
    with engine.connect() as conn:
        taken = [values for values in BROKEN[state] if not is_refused(conn, job_id, values)]
        conn.rollback()
    assert taken == []
    assert row(database, job_id) == before


def is_refused(conn: Connection, job_id: int, values: dict[str, Any]) -> bool:
    """Whether the row cannot be given these values."""
    with conn.begin_nested() as savepoint:
        try:
            conn.execute(update(jobs).where(jobs.c.id == job_id).values(**values))
        except DBAPIError:
            savepoint.rollback()
            return True
        savepoint.rollback()
        return False


def test_broken_edges_and_attempts_are_refused(engine: Engine, database: Database) -> None:
    job_id = put(database)
    set_off(database, job_id)
    edge = {"job_id": job_id, "depends_on_id": 7, "kind": "ok", "position": 0, "satisfied": False, "checked": False}
    attempt = {"job_id": job_id, "attempt": 2, "owner": "x", "supervisor": "x", "claimed_at": NOW}
    with engine.begin() as conn:
        conn.execute(insert(job_deps), edge)
        conn.execute(insert(job_attempts), attempt)
    for table, values in (
        (job_deps, edge),  # one edge between two jobs
        (job_deps, {**edge, "depends_on_id": job_id}),
        (job_deps, {**edge, "depends_on_id": 8, "kind": "maybe"}),
        (job_attempts, attempt),  # one row for one attempt
        (job_attempts, {**attempt, "attempt": 3, "cause": "done"}),
        (job_attempts, {**attempt, "attempt": 3, "ended_at": NOW}),
    ):
        with engine.connect() as conn:
            with pytest.raises(DBAPIError):
                conn.execute(insert(table), values)
            conn.rollback()


def test_one_holder_of_a_key(engine: Engine, database: Database) -> None:
    first = put(database, key="k")
    second = put(database, key="another")
    with engine.connect() as conn:
        with pytest.raises(DBAPIError):
            conn.execute(update(jobs).where(jobs.c.id == second).values(key_slot="k"))
        conn.rollback()
    run(database, first)
    with engine.begin() as conn:
        conn.execute(update(jobs).where(jobs.c.id == second).values(key_slot="k"))
