"""Making the tables: alone, five at once, killed half-way, beside what a user has, and refused where it must be."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, make_url, text

import sqljobs
from sqljobs.schema.configure import OUR_TABLES
from sqljobs.schema.engine import create_engine
from sqljobs.schema.errors import DatabaseUnavailable, NotInitialised, SchemaOutdated
from sqljobs.schema.migrate import check, current_version, initialise, newest_version
from sqljobs.schema.model import VERSION_TABLE, Model
from sqljobs.schema.transactions import Database
from tests.schema.fingerprints import fingerprint


def run_sql(engine: Engine, *statements: str) -> None:
    with engine.begin() as conn:
        for statement in statements:
            conn.execute(text(statement))


def table_names(engine: Engine) -> set[str]:
    with engine.connect() as conn:
        return set(inspect(conn).get_table_names())


@pytest.fixture(scope="module")
def made_by_models(server: Any) -> list[str]:
    """The fingerprint of the tables as the models make them, without the version table."""
    url = server.new_database()
    engine = create_engine(url)
    Model.metadata.create_all(engine)
    made = fingerprint(engine, OUR_TABLES - {VERSION_TABLE})
    engine.dispose()
    server.drop_database(url)
    return made


def test_twice_is_as_good_as_once(empty_engine: Engine) -> None:
    database = Database.of(empty_engine)
    assert initialise(database) == newest_version()
    first = fingerprint(empty_engine)
    assert first
    assert initialise(database) == newest_version()
    assert fingerprint(empty_engine) == first
    check(database)


def test_models_and_migrations_agree(engine: Engine, made_by_models: list[str]) -> None:
    assert fingerprint(engine, OUR_TABLES - {VERSION_TABLE}) == made_by_models


def test_autogenerate_finds_nothing_to_do(engine: Engine) -> None:
    def is_made_here(thing: Any, _name: Any, kind: str, *_more: Any) -> bool:
        # Alembic asks nobody whether an index is for this database.
        return kind != "index" or thing.name != "jobs_begun" or engine.dialect.name in ("sqlite", "postgresql")

    with engine.connect() as conn:
        options: dict[str, Any] = {"version_table": VERSION_TABLE, "compare_type": True, "compare_server_default": True}
        options["include_object"] = is_made_here
        differences = compare_metadata(MigrationContext.configure(conn, opts=options), Model.metadata)
    assert differences == []


def _initialise_when_all_are_ready(url: str, barrier: Any, answers: Any) -> None:
    engine = create_engine(url)
    barrier.wait(60)
    try:
        answers.put(initialise(Database.of(engine)))
    except BaseException as error:
        answers.put(repr(error))
        raise
    finally:
        engine.dispose()


def test_five_at_once_on_an_empty_database(db_url: str, made_by_models: list[str]) -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(5), context.SimpleQueue()
    processes = [
        context.Process(target=_initialise_when_all_are_ready, args=(db_url, barrier, answers)) for _ in range(5)
    ]
    for process in processes:
        process.start()
    said = [answers.get() for _ in processes]
    for process in processes:
        process.join(60)
    assert said == [newest_version()] * 5
    assert [process.exitcode for process in processes] == [0] * 5
    engine = create_engine(db_url)
    assert fingerprint(engine, OUR_TABLES - {VERSION_TABLE}) == made_by_models
    with engine.connect() as conn:
        assert conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all() == [newest_version()]
    engine.dispose()


def test_check_says_what_is_wrong(empty_engine: Engine) -> None:
    database = Database.of(empty_engine)
    assert current_version(database) is None
    with pytest.raises(NotInitialised, match="run `sqljobs init`"):
        check(database)
    initialise(database)
    check(database)
    run_sql(empty_engine, f"UPDATE {VERSION_TABLE} SET version_num = '0000'")
    with pytest.raises(SchemaOutdated, match=r"of version 0000.*run `sqljobs init`"):
        check(database)
    run_sql(empty_engine, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(SchemaOutdated, match=r"of version 9999.*upgrade sqljobs"):
        check(database)
    with pytest.raises(SchemaOutdated, match=r"of version 9999.*upgrade sqljobs"):
        initialise(database)


@pytest.mark.parametrize("kind", ["TABLE {} (id INTEGER)", "VIEW {} AS SELECT 1 AS id"], ids=["table", "view"])
@pytest.mark.parametrize("name", ["jobs", "job_deps"])
def test_what_is_not_ours_is_refused_and_left_alone(empty_engine: Engine, kind: str, name: str) -> None:
    run_sql(empty_engine, f"CREATE {kind.format(name)}")
    for _ in range(2):  # the first try must leave nothing that makes the second believe
        with pytest.raises(DatabaseUnavailable, match=f"'{name}' is there already and is not ours.*elsewhere"):
            initialise(Database.of(empty_engine))
    with empty_engine.connect() as conn:
        assert set(inspect(conn).get_table_names()) | set(inspect(conn).get_view_names()) == {name}
        assert [column["name"] for column in inspect(conn).get_columns(name)] == ["id"]
    with pytest.raises(NotInitialised):
        check(Database.of(empty_engine))


@pytest.mark.databases("sqlite")
def test_sqlite_takes_jobs_and_Jobs_for_one_table(empty_engine: Engine) -> None:
    run_sql(empty_engine, "CREATE TABLE Jobs (id INTEGER)")
    with pytest.raises(DatabaseUnavailable, match="'Jobs' is there already"):
        initialise(Database.of(empty_engine))
    assert table_names(empty_engine) == {"Jobs"}


def test_beside_a_users_own_tables_and_history(empty_engine: Engine) -> None:
    run_sql(
        empty_engine,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
        "INSERT INTO alembic_version VALUES ('theirs')",
        "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY)",
    )
    initialise(Database.of(empty_engine))
    with empty_engine.connect() as conn:
        assert conn.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == ["theirs"]
    assert table_names(empty_engine) == OUR_TABLES | {"alembic_version", "orders"}


def test_autogenerate_of_a_user_leaves_our_tables_alone(empty_engine: Engine) -> None:
    from sqlalchemy import Column, Integer, MetaData, Table

    theirs = MetaData()
    Table("orders", theirs, Column("id", Integer, primary_key=True, autoincrement=False))
    theirs.create_all(empty_engine)
    initialise(Database.of(empty_engine))
    with empty_engine.connect() as conn:
        careless = compare_metadata(MigrationContext.configure(conn), theirs)
        options = {"include_name": sqljobs.alembic_include_name}
        careful = compare_metadata(MigrationContext.configure(conn, opts=options), theirs)
    assert {operation[1].name for operation in careless if operation[0] == "remove_table"} == OUR_TABLES
    assert careful == []


def test_include_name_knows_our_tables() -> None:
    parents = {"schema_name": None}
    refused = [name for name in sorted(OUR_TABLES) if not sqljobs.alembic_include_name(name, "table", parents)]
    assert refused == sorted(OUR_TABLES)
    assert sqljobs.alembic_include_name("orders", "table", parents)
    assert sqljobs.alembic_include_name(None, "schema", {})
    assert sqljobs.alembic_include_name("jobs", "column", parents)


OLD = {"postgresql": (12, 22), "mysql": (5, 7, 44), "mariadb": (10, 5, 29)}
NAMES = {"postgresql": "PostgreSQL 12.22", "mysql": "MySQL 5.7.44", "mariadb": "MariaDB 10.5.29"}


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_old_server_is_refused(empty_engine: Engine) -> None:
    kind = empty_engine.dialect.name
    empty_engine.connect().close()  # the first connection asks for the version
    empty_engine.dialect.server_version_info = OLD[kind]
    with pytest.raises(DatabaseUnavailable, match=f"{NAMES[kind]} is too old: sqljobs needs"):
        initialise(Database.of(empty_engine))
    assert table_names(empty_engine) == set()


@pytest.mark.databases("mariadb")
def test_mariadb_behind_a_mysql_url(db_url: str, made_by_models: list[str]) -> None:
    engine = create_engine(make_url(db_url).set(drivername="mysql+pymysql"))
    initialise(Database.of(engine))
    assert fingerprint(engine, OUR_TABLES - {VERSION_TABLE}) == made_by_models
    engine.dispose()


def test_unreachable_database_is_one_line(server: Any, tmp_path: Path) -> None:
    url = {
        "sqlite": f"sqlite:///{tmp_path}",
        "postgresql": "postgresql://x@127.0.0.1:1/x",
        "mysql": "mysql://x@127.0.0.1:1/x",
        "mariadb": "mariadb://x@127.0.0.1:1/x",
    }[server.kind]
    engine = create_engine(url)
    with pytest.raises(DatabaseUnavailable, match="cannot be reached") as raised:
        initialise(Database.of(engine))
    assert "\n" not in str(raised.value)
    engine.dispose()
