"""The test servers themselves: real, separate, durable over a crash, gone when their session is."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import OperationalError

from stress.servers import Server, ServerUnavailable, pgbouncer
from stress.servers.postgresql import Postgresql
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
OLDEST = {"sqlite": (3, 35), "postgresql": (13,), "mariadb": (10, 6), "mysql": (8, 0, 19)}
FOUR_BYTES = "𝕊𝕢𝕝 🐘🦭🐬 \U0010ffff"


@contextmanager
def transaction(url: str) -> Iterator[Connection]:
    """One transaction on a connection of its own, committed at the end."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def write_word(url: str, word: str) -> None:
    """Commit a table with one row."""
    with transaction(url) as connection:
        connection.execute(text("CREATE TABLE words (word VARCHAR(50))"))
        connection.execute(text("INSERT INTO words VALUES (:word)"), {"word": word})


def read_words(url: str) -> list[str]:
    """All rows of that table."""
    with transaction(url) as connection:
        return list(connection.scalars(text("SELECT word FROM words")))


def alive(pid: int) -> bool:
    """Whether there is such a process, zombies not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def run_python(code: str) -> subprocess.Popen[str]:
    """A test session of its own: a script that may import the test servers."""
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def run_pytest(*arguments: str, **variables: str) -> str:
    """Run this file's round trip in a pytest of its own; what it printed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{__file__}::{ROUND_TRIP}", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_round_trip_of_four_byte_characters(db_url: str) -> None:
    write_word(db_url, FOUR_BYTES)
    assert read_words(db_url) == [FOUR_BYTES]


ROUND_TRIP = test_round_trip_of_four_byte_characters.__name__


def test_databases_are_separate_and_start_empty(server: Server, db_url: str) -> None:
    write_word(db_url, "first")
    other = server.new_database()
    with transaction(other) as connection:
        assert inspect(connection).get_table_names() == []
    write_word(other, "second")
    server.drop_database(other)
    assert read_words(db_url) == ["first"]


def test_crash_keeps_what_was_committed(server: Server, db_url: str) -> None:
    write_word(db_url, FOUR_BYTES)
    before = server.pid
    server.restart(immediate=True)
    assert read_words(db_url) == [FOUR_BYTES]
    if server.kind != "sqlite":
        assert before is not None
        assert server.pid not in (None, before)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_stopped_server_is_away_until_started(server: Server, db_url: str) -> None:
    write_word(db_url, "kept")
    server.stop()
    assert server.pid is None
    with pytest.raises(OperationalError):
        read_words(db_url)
    server.start()
    assert read_words(db_url) == ["kept"]


def test_version_is_one_that_the_contract_names(server: Server) -> None:
    assert server.version() >= OLDEST[server.kind]


@pytest.mark.databases("mariadb", "mysql")
def test_names_are_what_they_say(server: Server, db_url: str) -> None:
    with transaction(db_url) as connection:
        version = connection.scalar(text("SELECT VERSION()"))
    assert ("MariaDB" in version) is (server.kind == "mariadb")


def test_drop_does_not_wait_for_an_open_transaction(server: Server) -> None:
    url = server.new_database()
    write_word(url, "open")
    engine = create_engine(url)
    connection = engine.connect()
    connection.execute(text("SELECT word FROM words")).all()
    server.drop_database(url)
    connection.invalidate()
    connection.close()
    engine.dispose()
    if server.kind != "sqlite":
        with pytest.raises(OperationalError):
            read_words(url)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_killed_session_leaves_nothing(server: Server) -> None:
    session = run_python(
        "import signal\n"
        "from stress.servers import Servers\n"
        f"server = Servers().get({server.kind!r})\n"
        "print(server.pid, server.folder.parent, flush=True)\n"
        "signal.pause()\n"
    )
    assert session.stdout is not None
    pid, folder = session.stdout.readline().split()
    assert alive(int(pid))
    session.send_signal(signal.SIGKILL)
    session.wait()
    session.stdout.close()
    wait_until(lambda: not alive(int(pid)), what=f"the end of {server.kind} {pid}")
    wait_until(lambda: not Path(folder).exists(), what=f"the removal of {folder}")


def test_forked_child_does_not_close_its_parents_servers() -> None:
    session = run_python(
        "import os\n"
        "from stress.servers import Servers\n"
        "servers = Servers()\n"
        "folder = servers.get('sqlite').folder\n"
        "if os.fork() == 0:\n"
        "    servers.close()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(folder.exists())\n"
        "servers.close()\n"
        "print(folder.exists())\n"
    )
    output, _ = session.communicate()
    assert output.split() == ["True", "False"]


def test_missing_server_is_a_loud_skip_and_a_failure_where_required(tmp_path: Path) -> None:
    variables = {"SQLJOBS_TEST_CACHE": str(tmp_path), "SQLJOBS_REQUIRE_SERVERS": ""}
    skipped = run_pytest("--db", "mysql,sqlite", **variables)
    assert "1 passed, 1 skipped" in skipped
    assert "NOT TESTED with mysql" in skipped
    assert "sh scripts/install-test-servers" in skipped
    failed = run_pytest("--db", "mysql", **variables | {"SQLJOBS_REQUIRE_SERVERS": "1"})
    assert "1 error" in failed
    assert "sh scripts/install-test-servers" in failed


def test_a_missing_pooler_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pgbouncer, "PROGRAM", tmp_path / "pgbouncer")
    with pytest.raises(ServerUnavailable, match=r"no .*/pgbouncer"):
        pgbouncer.Pgbouncer(Postgresql(tmp_path))


@pytest.mark.databases("postgresql")
def test_a_pooler_gives_each_transaction_any_session(db_url: str, pooled_url: str) -> None:
    pids = set()
    with transaction(pooled_url) as first, transaction(pooled_url) as second:
        for connection in (first, second):
            pids.add(connection.scalar(text("SELECT pg_backend_pid()")))
    with transaction(pooled_url) as third:
        pids.add(third.scalar(text("SELECT pg_backend_pid()")))
        assert third.scalar(text("SELECT current_database()")) == db_url.rpartition("/")[2]
    assert len(pids) == 2


def test_option_db_refuses_an_unknown_kind() -> None:
    assert "unknown oracle; there are sqlite, postgresql, mariadb, mysql" in run_pytest("--db", "oracle,sqlite")
