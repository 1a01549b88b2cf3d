"""Run as a program, since the schema is chosen once per process: tables in a schema of their own, and a job in them.

Arguments: URL, schema. Prints one word for each thing that worked."""

import sys

from sqlalchemy import inspect, text

import sqljobs
from sqljobs.schema.configure import OUR_TABLES, configured_schema
from sqljobs.schema.errors import NotInitialised
from sqljobs.schema.migrate import as_sql, check, initialise
from sqljobs.schema.ready import Wanted, ready_set
from sqljobs.schema.scan import scan
from sqljobs.schema.transactions import Database
from tests.schema.fingerprints import execute_script
from tests.schema.playing import lease, put, row, run


def main(url: str, schema: str) -> None:
    """Everything that names a table, once."""
    sqljobs.configure(schema=schema)
    engine = sqljobs.create_engine(url)
    database = Database.of(engine)
    for step in (check, put):
        try:
            step(database)
        except NotInitialised:
            print("missing")
    initialise(database)
    initialise(database)
    check(database)
    with engine.connect() as conn:
        assert set(inspect(conn).get_table_names(schema=configured_schema())) == OUR_TABLES
        print("tables", sorted(set(inspect(conn).get_table_names()) & OUR_TABLES))
    first = put(database, key="k")
    second = put(database, after=[first])
    assert put(database, key="k") == first
    run(database, first)
    assert [job.job_id for job in database.read("scan", lambda tx: scan(tx, Wanted(["t"]), 5))] == [second]
    assert database.read("ready", ready_set) == {second}
    assert row(database, first).state == "done"
    assert sqljobs.doctor(engine, repair=True) == []
    assert [one.job_id for one in lease(database, second)] == [second]
    print("ran")
    with engine.begin() as conn:
        kind = "DATABASE" if engine.dialect.name in ("mysql", "mariadb") else "SCHEMA"
        conn.execute(text(f"DROP {kind} {schema}{'' if kind == 'DATABASE' else ' CASCADE'}"))
    execute_script(engine, as_sql(engine.dialect.name))
    check(database)
    put(database)
    print("sql")
    with engine.begin() as conn:
        conn.execute(text(f"DROP {kind} {schema}{'' if kind == 'DATABASE' else ' CASCADE'}"))
    engine.dispose()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
