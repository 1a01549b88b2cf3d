"""The statements of every tick are answered from an index, whatever else has piled up in the tables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

import sqljobs
from sqljobs.schema import late_edges, ready
from sqljobs.schema.claim import claim
from sqljobs.schema.evidence import verdicts
from sqljobs.schema.glance import glance
from sqljobs.schema.holds import Hold, Holds, held_containers
from sqljobs.schema.leases import held_by, lapsed, renew
from sqljobs.schema.moves import Fence
from sqljobs.schema.scan import scan
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.playing import ALICE, no_options, put, set_off
from tests.schema.rows import NOW, fill_queue, refresh_statistics

WANTED = ready.Wanted(["t", "u"])
HELD = Holds(
    Hold(kind, name, None, NOW, None)
    for kind, name in (("job", "3"), ("job", "4"), ("type", "t"), ("type", "box"), ("group", "g"))
)
# By the state of containers that have begun, whichever index that leads.
BEGUN = {"jobs_begun", "jobs_ready", "jobs_due", "jobs_parent", "PRIMARY"}
GLANCED = {"jobs_ready", "jobs_due", "job_deps_unchecked", "PRIMARY"}
SCANNED = {"jobs_ready", "PRIMARY"}
LOOKS: dict[str, tuple[Callable[[Transaction], object], set[str]]] = {
    "scan": (lambda tx: scan(tx, WANTED, 4), SCANNED),
    "scan of some groups": (lambda tx: scan(tx, ready.Wanted(["t"], ["g"]), 4), SCANNED),
    "in flight": (ready.in_flight, {"jobs_in_flight", "jobs_lease"}),
    "due": (ready.due, {"jobs_due"}),
    "glance": (lambda tx: glance(tx, WANTED), GLANCED),
    "glance for rare types": (lambda tx: glance(tx, ready.Wanted(["x"])), GLANCED),
    "edges to check": (late_edges.check_edges, {"job_deps_unchecked", "job_deps_upstream", "PRIMARY"}),
    "lapsed": (lambda tx: lapsed(tx, not_owner="x"), {"jobs_in_flight"}),
    "held": (lambda tx: held_by(tx, "x"), {"jobs_in_flight", "jobs_lease"}),
    "renew": (lambda tx: renew(tx, ALICE, {1: 1, 2: 1, 3: 1}), {"PRIMARY"}),
    "claim": (lambda tx: claim(tx, ALICE, [1, 2, 3], no_options), {"PRIMARY"}),
    "verdicts": (lambda tx: verdicts(tx, [Fence(1, 1, "x"), Fence(2, 1, "x"), Fence(3, 7, "x")]), {"PRIMARY"}),
    "held containers": (lambda tx: held_containers(tx, HELD), BEGUN),
    "keys": (lambda tx: sqljobs.enqueue_many(tx.conn, keyed()), {"jobs_key", "PRIMARY"}),
}  # fmt: skip


def keyed() -> list[sqljobs.JobSpec]:
    return [sqljobs.JobSpec("t", key=f"k{number}") for number in range(20)]


@pytest.fixture
def filled(engine: Engine, database: Database) -> Database:
    """A queue in which a walk over all rows would show."""
    with engine.begin() as conn:
        if conn.dialect.name == "postgresql":  # an index that earlier tests have blown up is not what anybody has
            conn.execute(text("TRUNCATE jobs, job_deps, job_attempts"))
        fill_queue(conn, others=2000, ready=100)
    running, _ = set_off(database, put(database), put(database))
    put(database, after=[running.job_id])
    put(database, parent=put(database, "box", container=True))
    with engine.begin() as conn:
        sqljobs.enqueue_many(conn, keyed())
    with engine.begin() as conn:
        refresh_statistics(conn)
    return database


def test_every_look_uses_its_index(filled: Database) -> None:
    walks = []
    for name, (look, indexes) in LOOKS.items():
        with sent(filled.engine) as statements:
            filled.transaction("look", look, keep=False)
        with filled.engine.connect() as conn:
            for statement, parameters in statements:
                plan = explain(conn, statement, parameters)
                if not uses(conn.dialect.name, plan, indexes):
                    walks.append(f"{name}: {statement}\n{plan}")
    assert walks == []


@contextmanager
def sent(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """The SELECTs from our tables that are sent meanwhile, with their parameters."""
    seen: list[tuple[str, Any]] = []

    def listener(_conn: Connection, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        is_look = statement.startswith(("SELECT", "WITH")) and "FROM job" in statement.replace("\n", " ") and not many
        if is_look and "FROM job_holds" not in statement:  # all of which are read: nobody holds a thousand things
            seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", listener)
    yield seen
    event.remove(engine, "before_cursor_execute", listener)


def explain(conn: Connection, statement: str, parameters: Any) -> str:
    prefix = {"sqlite": "EXPLAIN QUERY PLAN", "mysql": "EXPLAIN FORMAT=TREE"}.get(conn.dialect.name, "EXPLAIN")
    found = conn.exec_driver_sql(f"{prefix} {statement}", parameters)
    return "\n".join(" ".join(str(value) for value in row) for row in found)


def uses(dialect: str, plan: str, indexes: set[str]) -> bool:
    """Whether every table of ours is read by one of `indexes`."""
    lines = [line for line in plan.splitlines() if reads_a_table(dialect, line)]
    # MySQL says only this where it has found the rows by their keys while planning.
    lines = lines or [line for line in plan.splitlines() if "Rows fetched before execution" in line]
    assert lines, plan
    return all(names_an_index(dialect, line, indexes) for line in lines)


def reads_a_table(dialect: str, line: str) -> bool:
    if "job_intents" in line:  # empty, mostly: any way to read it will do
        return False
    match dialect:
        case "sqlite":
            return "SCAN job" in line or "SEARCH job" in line
        case "postgresql":
            return " on job" in line and "Bitmap Heap Scan" not in line
        case "mysql":
            return " on job" in line
        case _:
            return " job" in line


def names_an_index(dialect: str, line: str, indexes: set[str]) -> bool:
    if any(f"{index}" in line for index in indexes - {"PRIMARY"}):
        return "Seq Scan" not in line
    if "PRIMARY" not in indexes:
        return False
    own = {
        "sqlite": ("USING INTEGER PRIMARY KEY", "sqlite_autoindex_"),
        "postgresql": ("_pkey",),
        "mysql": ("using PRIMARY", "Rows fetched before execution"),
    }
    return any(word in line for word in own.get(dialect, ("PRIMARY",)))
