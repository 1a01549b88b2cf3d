"""Database connections of the parent: its children neither use nor end them."""

import gc
import sqlite3
from pathlib import Path
from typing import ClassVar

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from sqljobs.supervisor.children import Children
from sqljobs.worker_runtime.post_fork import forget_inherited_connections, known_engines
from tests.processes.offspring import answer_of, settled, wait_for_ends

Table = Children[str]


def test_the_end_of_an_inherited_sqlite_connection_does_not_harm_the_file(children: Table, tmp_path: Path) -> None:
    path = tmp_path / "wal.db"
    ours = sqlite3.connect(path, isolation_level=None)
    ours.execute("PRAGMA journal_mode=WAL")
    ours.execute("CREATE TABLE seen (who TEXT)")
    ours.execute("PRAGMA wal_checkpoint")
    children.spawn("a", settled(lambda _: ours.close()))
    assert wait_for_ends(children)["a"].exit_code == 0
    ours.execute("INSERT INTO seen VALUES ('parent')")
    theirs = sqlite3.connect(path)
    assert theirs.execute("SELECT who FROM seen").fetchall() == [("parent",)]
    assert theirs.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    theirs.close()
    ours.close()


class Watched(sqlite3.Connection):
    """A connection that notes its end, in the process where that happens."""

    ends: ClassVar[list[str]] = []

    def close(self) -> None:
        Watched.ends.append("closed")
        super().close()

    def __del__(self) -> None:
        Watched.ends.append("collected")


def test_an_inherited_engine_opens_connections_of_its_own_and_ends_none(children: Table, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'jobs.db'}", connect_args={"factory": Watched})
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE seen (who TEXT)"))
        inherited = id(connection.connection.dbapi_connection)

    engines = known_engines()

    def use_engine() -> tuple[bool, list[str]]:
        forget_inherited_connections(engines)
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO seen VALUES ('child')"))
            own = id(connection.connection.dbapi_connection)
        gc.collect()
        return own != inherited, Watched.ends

    assert answer_of(children, use_engine) == [True, []]
    with engine.begin() as connection:
        assert id(connection.connection.dbapi_connection) == inherited
        assert connection.scalars(text("SELECT who FROM seen")).all() == ["child"]
    engine.dispose()
    assert Watched.ends[0] == "closed"


class Proxy:
    """Says that it is an engine, as a lazy object would."""

    asked = False

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        Proxy.asked = True
        return Engine


def test_known_engines_finds_every_kind_and_wakes_no_proxy() -> None:
    plain, proxy = create_engine("sqlite://"), Proxy()
    options = plain.execution_options(isolation_level="SERIALIZABLE")
    asynchronous = create_async_engine("sqlite+aiosqlite://")
    found = known_engines()
    assert all(any(engine is one for one in found) for engine in (plain, options, asynchronous.sync_engine))
    assert id(proxy) not in map(id, found)
    assert not Proxy.asked
