"""The tables in a schema of their own, as SQL text for somebody else to run, and on servers set up the wrong way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text

import sqljobs
from sqljobs.schema.errors import DatabaseUnavailable, InvalidJob
from sqljobs.schema.migrate import as_sql, check, check_server, initialise
from sqljobs.schema.transactions import Database
from tests.schema.fingerprints import execute_script, fingerprint

ROOT = Path(__file__).parents[2]


def run_own_schema(url: str, schema: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.schema.own_schema", url, schema],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_schema_of_our_own(db_url: str) -> None:
    done = run_own_schema(db_url, f"{make_url(db_url).database}_jobs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["missing", "missing", "tables []", "ran", "sql"]


@pytest.mark.databases("sqlite")
def test_sqlite_has_no_schemas(db_url: str) -> None:
    done = run_own_schema(db_url, "elsewhere")
    assert "DatabaseUnavailable: SQLite has no schemas: leave --schema out" in done.stderr


@pytest.mark.parametrize("schema", ["", " x", "x" * 64, "a\0b"])
def test_bad_schema_names_are_refused(schema: str) -> None:
    with pytest.raises(InvalidJob, match="schema"):
        sqljobs.configure(schema=schema)


def test_sql_text_makes_the_same_tables(engine: Engine, empty_engine: Engine) -> None:
    execute_script(empty_engine, as_sql(engine.dialect.name))
    assert fingerprint(empty_engine) == fingerprint(engine)
    check(Database.of(empty_engine))
    initialise(Database.of(empty_engine))
    assert fingerprint(empty_engine) == fingerprint(engine)


@pytest.mark.databases("mysql")
def test_binary_log_of_statements_is_refused(engine: Engine) -> None:
    with engine.begin() as conn:
        former = conn.execute(text("SELECT @@global.binlog_format")).scalar_one()
        conn.execute(text("SET GLOBAL binlog_format = 'STATEMENT'"))
    try:
        with pytest.raises(DatabaseUnavailable, match=r"MySQL writes its binary log as STATEMENT.*set binlog_format"):
            check_server(Database.of(engine))
    finally:
        with engine.begin() as conn:
            conn.execute(text(f"SET GLOBAL binlog_format = '{former}'"))
    check_server(Database.of(engine))
