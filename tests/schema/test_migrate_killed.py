"""Making and upgrading the tables, killed after any statement: the next run finishes what the last one began."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from sqljobs.schema.errors import NotInitialised, SchemaOutdated
from sqljobs.schema.migrate import check, initialise
from sqljobs.schema.transactions import Database
from stress.servers import Server
from tests.dumps.load import load
from tests.schema.fingerprints import fingerprint

SEEN = "'2026-11-29 12:00:00'"


class Killed(Exception):
    """Stands in for the death of `init`."""


def _die_after(number: int) -> Callable[..., None]:
    made = 0

    def listener(_conn: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
        nonlocal made
        if statement.lstrip().startswith(("CREATE", "ALTER", "INSERT", "UPDATE")):
            made += 1
            if made > number:
                raise Killed

    return listener


def test_init_that_was_killed_after_any_statement_is_finished_by_the_next(engine: Engine, empty_engine: Engine) -> None:
    database = Database.of(empty_engine)
    keeps_parts = empty_engine.dialect.name in ("mysql", "mariadb")
    number = 0
    for number in range(0, 100, 1 if keeps_parts else 6):
        listener = _die_after(number)
        event.listen(empty_engine, "before_cursor_execute", listener)
        try:
            initialise(database)
        except Killed:
            with pytest.raises((NotInitialised, SchemaOutdated)):
                check(database)
            continue
        finally:
            event.remove(empty_engine, "before_cursor_execute", listener)
        break
    assert number > 5
    assert fingerprint(empty_engine) == fingerprint(engine)
    check(database)


def test_from_version_0001_killed_after_any_statement_or_not(
    server: Server, engine: Engine, empty_engine: Engine
) -> None:
    load(empty_engine, "0001", server.kind)
    columns = "id, name, name_slot, host, boot_id, pid, start_ticks, state, slots, types, wakeup, started_at"
    values = f"'a', 'old', 'old', 'h', 'b', 1, 1, 'running', 4, '[]', 'poll', {SEEN}"
    with empty_engine.begin() as conn:
        conn.execute(text(f"INSERT INTO job_supervisors ({columns}, heartbeat_at, ttl) VALUES ({values}, {SEEN}, 60)"))
    database = Database.of(empty_engine)
    deaths = 0
    for number in range(40):
        listener = _die_after(number)
        event.listen(empty_engine, "before_cursor_execute", listener)
        try:
            initialise(database)
        except Killed:
            deaths += 1
            with pytest.raises(SchemaOutdated):
                check(database)
            continue
        finally:
            event.remove(empty_engine, "before_cursor_execute", listener)
        break
    assert 2 <= deaths < 40
    check(database)
    assert fingerprint(empty_engine) == fingerprint(engine)
    with empty_engine.connect() as conn:
        rows = conn.execute(text("SELECT name, ttl, drain_requested_at FROM job_supervisors")).all()
        assert conn.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 9
    assert [tuple(row) for row in rows] == [("old", 60.0, None)]
