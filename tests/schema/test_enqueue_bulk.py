"""Whole graphs in a number of statements that grows with the bulk alone, never with the number of jobs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, func, select

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.enqueue_rows import EDGES_PER_STATEMENT, ROWS_PER_STATEMENT
from sqljobs.schema.tables import job_deps, jobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import count, put


def chain(n: int) -> list[JobSpec]:
    specs = [JobSpec("t", {"n": 0})]
    for number in range(1, n):
        specs.append(JobSpec("t", {"n": number}, after=[specs[-1]]))
    return specs


def fan_in(n: int) -> list[JobSpec]:
    members = [JobSpec("t", {"n": number}) for number in range(n - 1)]
    return [*members, JobSpec("t", {"n": n - 1}, after=members)]


def fan_out(n: int) -> list[JobSpec]:
    root = JobSpec("t", {"n": 0})
    return [root, *(JobSpec("t", {"n": number}, after=[root]) for number in range(1, n))]


def keyed(n: int) -> list[JobSpec]:
    return [JobSpec("t", {"n": number}, key=f"k{number}") for number in range(n)]


def types(n: int) -> list[JobSpec]:
    return [JobSpec(f"t{number}", {"n": number}, key="k") for number in range(n)]


def mixed(n: int) -> list[JobSpec]:
    part = n // 4
    return [*chain(part), *fan_in(part), *fan_out(part), *keyed(n - 3 * part)]


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """The statements that are sent meanwhile, an `executemany` counted once."""
    seen: list[str] = []

    def listener(_conn: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", listener)
    yield seen
    event.remove(engine, "before_cursor_execute", listener)


def enqueue_all(engine: Engine, specs: list[JobSpec]) -> tuple[list[int], int]:
    with engine.connect() as conn:
        with statements(engine) as seen:
            ids = sqljobs.enqueue_many(conn, specs)
        conn.commit()
    return ids, len(seen)


def bulk(specs: list[JobSpec]) -> int:
    """How many portions of rows, edges and keys these are."""
    edges = sum(len(spec.given.get("after", ())) for spec in specs)
    keys = sum("key" in spec.given for spec in specs)
    return (len(specs) + keys) // ROWS_PER_STATEMENT + edges // EDGES_PER_STATEMENT


@pytest.mark.parametrize("shape", [chain, fan_in, fan_out, keyed, types])
def test_twice_as_many_jobs_take_at_most_twice_the_statements(
    engine: Engine, shape: Callable[[int], list[JobSpec]]
) -> None:
    n = ROWS_PER_STATEMENT
    enqueue_all(engine, [JobSpec("warm")])
    _, once = enqueue_all(engine, shape(n))
    with engine.begin() as conn:
        conn.execute(jobs.delete())
    _, twice = enqueue_all(engine, shape(2 * n))
    more = bulk(shape(2 * n)) - bulk(shape(n))
    assert once <= 3 + 6 * (bulk(shape(n)) + 2)
    assert twice - once <= 6 * more


def test_ten_thousand(engine: Engine, database: Database) -> None:
    specs = mixed(10_000)
    upstream = put(database, key="k3")
    specs.append(JobSpec("t", {"n": -1}, after=[upstream, *specs[:5]]))
    ids, sent = enqueue_all(engine, specs)
    assert sent <= 6 * (bulk(specs) + 4)
    assert len(ids) == 10_001
    assert count(database) == 10_001  # one key was taken
    with engine.connect() as conn:
        numbers = {row.id: row.args["n"] for row in conn.execute(select(jobs.c.id, jobs.c.args)) if row.args}
        wanted = [spec.args["n"] for spec in specs if spec.args is not None]
        assert [numbers.get(job_id, 3) for job_id in ids] == wanted
        unmet = conn.execute(select(func.sum(jobs.c.unmet_deps))).scalar_one()
        found = conn.execute(select(func.count()).select_from(job_deps)).scalar_one()
    assert unmet == found == sum(len(spec.given.get("after", ())) for spec in specs)
