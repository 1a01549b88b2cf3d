"""`doctor` sees each broken rule, and only that one; a sound queue and other people's delays give no alarm."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, delete, insert, select, update

import sqljobs
from sqljobs.schema.control_tables import job_supervisors
from sqljobs.schema.doctor import IDS_NAMED, RULES, check_up, examine
from sqljobs.schema.tables import job_attempts, job_deps, jobs
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.breaking import BREAKS, ERROR, nobody_promotes, nobody_reclaims, ran
from tests.schema.breaking_graphs import blocked_by_nothing, nobody_looks
from tests.schema.doctoring import blocked_pair, change, family, long_ago, now, register_alice
from tests.schema.playing import lease, put, run, set_off

LATE = {"lapsed", "overdue", "unchecked"}


@pytest.fixture(autouse=True)
def _alice(database: Database) -> None:
    """A supervisor that has lived for long, so that what is late is late by its fault."""
    register_alice(database, started_at=long_ago() - timedelta(hours=1))


def by_code(findings: list[sqljobs.Finding]) -> dict[str, tuple[int, ...]]:
    return {finding.code: finding.job_ids for finding in findings}


def test_each_broken_rule_is_found_where_it_is_broken_and_nowhere_else(engine: Engine, database: Database) -> None:
    expected: dict[str, list[int]] = {}
    for function, codes in BREAKS.values():
        put(database)
        ran(database)
        job_id = function(database)
        for code in codes:
            expected.setdefault(code, []).append(job_id)
    found = sqljobs.doctor(engine)
    assert by_code(found) == {code: tuple(ids) for code, ids in expected.items()}
    for finding in found:
        assert (finding.count, finding.repaired) == (len(expected[finding.code]), 0)
        assert finding.warning == (finding.code in LATE)
        assert finding.is_broken != finding.warning
    assert check_up(database, jobs_at_once=13) == found
    assert database.read("examine", examine) == found


def test_every_rule_is_broken_here_or_by_the_checks_of_the_tables() -> None:
    broken = {code for _, codes in BREAKS.values() for code in codes}
    assert broken | {"job_check", "dependency_check", "attempt_check"} == {rule.code for rule in RULES}


def test_a_sound_queue(engine: Engine, database: Database) -> None:
    first, second = blocked_pair(database)
    put(database, after=[second], key="k")
    later = put(database, run_after="1h")
    _, child = family(database)
    inner = put(database)
    change(database, child, container=True, state="blocked", unmet_deps=1, open_children=1)
    with engine.begin() as conn:
        edge = {"job_id": child, "depends_on_id": later, "kind": "any", "position": 0}
        conn.execute(insert(job_deps).values(**edge, satisfied=False, checked=True))
    change(database, inner, parent_id=child, state="blocked", closed_gates=1)
    run(database, first)
    set_off(database, put(database))
    lease(database, put(database, key="e", key_for="ever"))
    tried = ran(database, ERROR)
    with engine.begin() as conn:
        sqljobs.cancel(conn, tried, second)
    assert sqljobs.doctor(engine) == []


def test_nobody_is_late_where_no_supervisor_lives(engine: Engine, database: Database) -> None:
    for late in (nobody_reclaims, nobody_promotes, nobody_looks):
        late(database)
    assert by_code(sqljobs.doctor(engine)).keys() == LATE
    for values in ({"started_at": now()}, {"heartbeat_at": long_ago()}, {"name_slot": None, "state": "gone"}):
        with engine.begin() as conn:
            former = conn.execute(select(job_supervisors)).mappings().one()
            conn.execute(update(job_supervisors).values(**values))
        assert sqljobs.doctor(engine) == []
        with engine.begin() as conn:
            conn.execute(update(job_supervisors).values(**{name: former[name] for name in values}))


def test_many_broken_jobs_are_counted_and_some_named(engine: Engine, database: Database) -> None:
    ids = [blocked_by_nothing(database) for _ in range(IDS_NAMED + 5)]
    with engine.begin() as conn:
        conn.execute(delete(jobs).where(jobs.c.id.in_(ids[3:5])))
        conn.execute(
            insert(job_attempts).values(job_id=ids[-1] + 77, attempt=1, owner="x/1", supervisor="x", claimed_at=now())
        )
    left = ids[:3] + ids[5:]
    for size in (7, len(left), 5000):
        found = {finding.code: finding for finding in check_up(database, jobs_at_once=size)}
        assert found.keys() == {"blocked", "attempts_of_no_job"}
        assert (found["blocked"].count, found["blocked"].job_ids) == (len(left), tuple(left[:IDS_NAMED]))
        assert found["attempts_of_no_job"].job_ids == (ids[-1] + 77,)


CHECKED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "job_check": (jobs, {"weight": 0}, "jobs_rank"),
    "dependency_check": (job_deps, {"kind": "maybe"}, "job_deps_kind"),
    "attempt_check": (job_attempts, {"cause": None}, "job_attempts_ended"),
}


@pytest.mark.parametrize("code", list(CHECKED))
def test_rows_that_a_missing_check_let_in(engine: Engine, database: Database, code: str) -> None:
    table, values, check = CHECKED[code]
    first = ran(database, ERROR)
    job_id = put(database, after=[first])
    changed = first if code == "attempt_check" else job_id
    statement = update(table).where((table.c.id if table is jobs else table.c.job_id) == changed)
    off, on = {
        "sqlite": ("PRAGMA ignore_check_constraints = ON", ""),
        "postgresql": (f"ALTER TABLE {table.name} DROP CONSTRAINT {check}", ""),
        "mariadb": ("SET SESSION check_constraint_checks = OFF", "SET SESSION check_constraint_checks = ON"),
        "mysql": (f"ALTER TABLE {table.name} ALTER CHECK {check} NOT ENFORCED", ""),
    }[engine.dialect.name]
    with engine.connect() as conn:
        conn.exec_driver_sql(off)
        conn.execute(statement.values(**values))
        if engine.dialect.name == "postgresql":  # where the whole is rolled back, the missing CHECK included
            found = examine(Transaction("test", conn, database.dialect, now()))
        else:
            conn.commit()
            found = sqljobs.doctor(engine)
        assert code in {finding.code for finding in found}
        conn.rollback()
        if on:
            conn.exec_driver_sql(on)
        conn.execute(delete(table))
        conn.commit()
        if engine.dialect.name == "mysql":
            conn.exec_driver_sql(f"ALTER TABLE {table.name} ALTER CHECK {check} ENFORCED")


def test_only_an_engine(engine: Engine) -> None:
    with engine.connect() as conn, pytest.raises(TypeError, match="doctor needs a SQLAlchemy Engine, not Connection"):
        sqljobs.doctor(conn)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["SERIALIZABLE", "AUTOCOMMIT"])
def test_whatever_the_engine_does_by_default(engine: Engine, database: Database, level: str) -> None:
    job_id = blocked_by_nothing(database)
    theirs = sqlalchemy.create_engine(engine.url, isolation_level=level)
    for _ in range(2):
        assert [finding.job_ids for finding in sqljobs.doctor(theirs)] == [(job_id,)]
    assert [finding.repaired for finding in sqljobs.doctor(theirs, repair=True)] == [1]
    with theirs.connect() as conn:
        assert conn.execute(select(jobs.c.state)).scalar_one() == "ready"
    theirs.dispose()
