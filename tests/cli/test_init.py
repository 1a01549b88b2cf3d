"""`sqljobs init`."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sqljobs.schema.migrate import newest_version
from tests.cli.calling import Cli, program


def test_creates_the_file_and_says_so(cli: Cli, folder: Path) -> None:
    said = cli("init")
    assert said.code == 0
    assert said.out == f"created the tables (version {newest_version()}) in sqlite:///{folder}/sqljobs.db\n"
    assert cli("init").out == (
        f"the tables are of version {newest_version()} already, in sqlite:///{folder}/sqljobs.db\n"
    )
    assert cli("init", "--json").json["version"] == newest_version()
    assert cli("list").code == 0


def test_check(cli: Cli, folder: Path) -> None:
    assert cli.refused(1, "init", "--check").startswith(f"there is no file {folder}/sqljobs.db: run `sqljobs init`")
    assert not (folder / "sqljobs.db").exists()
    (folder / "sqljobs.db").touch()
    assert "run `sqljobs init`" in cli.refused(1, "init", "--check")
    cli("init")
    assert cli("init", "--check").code == 0
    assert cli("init", "--check", "--json").json == {"version": newest_version(), "current": True}
    assert cli("init", "--check", "--url", "postgresql://u@127.0.0.1:1/d").code == 4


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(("found", "words"), [("0000", "run `sqljobs init`"), ("9999", "upgrade sqljobs")])
def test_tables_of_another_version(cli: Cli, found: str, words: str) -> None:
    with sqlite3.connect("sqljobs.db") as conn:
        conn.execute("UPDATE job_schema_version SET version_num = ?", [found])
    conn.close()
    assert words in cli.refused(1, "init", "--check")
    assert words in cli.refused(4, "list")


def test_a_foreign_table(cli: Cli) -> None:
    with sqlite3.connect("sqljobs.db") as conn:
        conn.execute("CREATE TABLE jobs (x)")
    conn.close()
    assert "'jobs' is there already and is not ours" in cli.refused(4, "init")


def test_sql_connects_to_nothing(cli: Cli, folder: Path) -> None:
    said = cli("init", "--sql")
    assert said.code == 0
    assert "AUTOINCREMENT" in said.out
    assert list(folder.iterdir()) == []
    for url in ("postgresql://nowhere/d", "mysql://nowhere/d", "mariadb://nowhere/d"):
        said = cli("init", "--sql", "--url", url, "--schema", "ours")
        assert said.code == 0
        assert "CREATE TABLE IF NOT EXISTS ours.jobs" in said.out
    assert cli("init", "--sql", "--url", "postgresql://nowhere/d", "--json").json["database"] == "postgresql"


def tables_of(conn: sqlite3.Connection) -> dict[str, str]:
    rows = conn.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: "".join(sql.split()).replace("IFNOTEXISTS", "") for name, sql in rows}


def test_the_sql_makes_the_same_tables(cli: Cli) -> None:
    text = cli("init", "--sql").out
    cli("init")
    with sqlite3.connect("by_hand.db") as by_hand, sqlite3.connect("sqljobs.db") as ours:
        by_hand.executescript(text)
        assert tables_of(by_hand) == tables_of(ours)
    by_hand.close()
    ours.close()


def test_refusals(cli: Cli) -> None:
    assert "not both" in cli.refused(2, "init", "--check", "--sql")
    assert "name a SQLite file" in cli.refused(2, "init", "--url", "sqlite://")
    assert "SQLite has no schemas" in cli.refused(4, "init", "--schema", "x")
    assert "SQLite has no schemas" in cli.refused(4, "init", "--sql", "--schema", "x")
    assert "mssql is not supported" in cli.refused(4, "init", "--sql", "--url", "mssql://h/d")
    assert "there is no folder /nonexistent: make it first" in cli.refused(
        4, "init", "--url", "sqlite:////nonexistent/x.db"
    )


@pytest.mark.usefixtures("folder")
def test_five_at_once() -> None:
    with ThreadPoolExecutor(5) as pool:
        said = list(pool.map(lambda _: program("init"), range(5)))
    assert [one.code for one in said] == [0] * 5, said
    assert program("init", "--check").code == 0
