"""What the looks of one tick cost beside a large queue, against the same ready rows alone. Not a test.

    python -m stress.benchmarks.tick --db sqlite,postgresql,mariadb,mysql

Fills two databases of each kind: one with `--ready` ready rows alone, one with `--others` done, blocked and scheduled
rows each beside them. Measures both in turn, so that what else the machine does weighs on both alike.

    python -m stress.benchmarks.tick --lanes 100000x1,10000x1000

adds a database for each pair, of that many ready rows in so many groups, in turn with the first one; `--numbered`
measures beside them the scan that numbers all ready rows, which is what there was before the scan by lanes."""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable

from sqlalchemy import func, select

from sqljobs.schema import ready
from sqljobs.schema.engine import create_engine
from sqljobs.schema.glance import glance
from sqljobs.schema.migrate import initialise
from sqljobs.schema.scan import find_lanes, scan
from sqljobs.schema.states import State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database, Transaction
from stress.servers import KINDS, Server, Servers, ServerUnavailable
from tests.schema.rows import fill, fill_queue, refresh_statistics

SLOTS = 4
WANTED = ready.Wanted(["t"])
LOOKS: dict[str, Callable[[Transaction], object]] = {
    "scan": lambda tx: scan(tx, WANTED, SLOTS),
    "lanes": lambda tx: find_lanes(tx, WANTED),
    "in flight": ready.in_flight,
    "glance": lambda tx: glance(tx, WANTED),
}


def numbered(tx: Transaction) -> object:
    """The scan as it was before: all ready rows numbered, the first few of each group and priority kept."""
    columns = (jobs.c.id, jobs.c.group_key, jobs.c.weight, jobs.c.priority, jobs.c.created_at)
    place = func.row_number().over(
        partition_by=(jobs.c.group_key, jobs.c.priority), order_by=(jobs.c.created_at, jobs.c.id)
    )
    rows = select(*columns, place.label("place")).where(ready.in_state(State.READY), WANTED.condition())
    for name in ("mysql", "mariadb"):
        rows = rows.with_hint(jobs, "FORCE INDEX (jobs_ready)", name)
    found = rows.subquery("numbered")
    return tx.execute("numbered", select(found).where(found.c.place <= SLOTS)).all()


def filled(server: Server, *, others: int, ready_rows: int, groups: int = 1) -> Database:
    """A new database with that many rows."""
    database = Database.of(create_engine(server.new_database()))
    initialise(database)
    with database.engine.begin() as conn:
        fill_queue(conn, others=others, ready=0)
        fill(conn, State.READY, ready_rows, groups=groups)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        refresh_statistics(conn)
        if conn.dialect.name == "postgresql":
            conn.exec_driver_sql("VACUUM ANALYZE")  # what autovacuum does by itself soon after
    return database


def measured(database: Database) -> dict[str, float]:
    """Seconds of each look, and of all of them with their transaction, the whole tick."""
    seconds: dict[str, float] = {}

    def look(tx: Transaction) -> None:
        for name, one in LOOKS.items():
            start = time.perf_counter()
            one(tx)
            seconds[name] = time.perf_counter() - start

    start = time.perf_counter()
    database.read("tick", look)
    seconds["tick"] = time.perf_counter() - start
    return seconds


def medians(rounds: Iterable[dict[str, float]]) -> dict[str, float]:
    """The median of each column, in milliseconds."""
    listed = list(rounds)
    return {name: 1000 * statistics.median(one[name] for one in listed) for name in listed[0]}


Case = tuple[str, int, int, int]  # heading, other rows, ready rows, groups


def compare(server: Server, cases: list[Case], rounds: int) -> None:
    """Fill, measure, print one row for each look."""
    start = time.perf_counter()
    databases = [filled(server, others=others, ready_rows=rows, groups=groups) for _, others, rows, groups in cases]
    took = time.perf_counter() - start
    for database in databases:
        measured(database)  # compiles the statements, fills the server's caches
    turns = [[measured(database) for database in databases] for _ in range(rounds)]
    columns = [medians(turn[place] for turn in turns) for place in range(len(cases))]
    version = ".".join(map(str, server.version()))
    print(f"\n{server.kind} {version}: filled in {took:.1f} s, {rounds} rounds, ms")
    print(f"{'':12}" + "".join(f"{heading:>14}" for heading, *_ in cases) + f"{'ratio':>8}")
    for name in columns[0]:
        shown = "".join(f"{column[name]:14.2f}" for column in columns)
        print(f"{name:12}{shown}{columns[1][name] / columns[0][name]:8.2f}")
    for database in databases:
        database.engine.dispose()


def main() -> None:
    """Read the arguments and compare on each kind of database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", default=",".join(KINDS), help="kinds of database, separated by commas")
    parser.add_argument("--others", type=int, default=100_000, help="rows of each other state")
    parser.add_argument("--ready", type=int, default=1000, help="ready rows")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--lanes", default="", help="ROWSxGROUPS,...: ready rows in so many groups")
    parser.add_argument("--numbered", action="store_true", help="measure the scan that numbers all rows, too")
    given = parser.parse_args()
    if given.numbered:
        LOOKS["numbered"] = numbered
    cases: list[Case] = [("alone", 0, given.ready, 1), ("beside", given.others, given.ready, 1)]
    for pair in filter(None, given.lanes.split(",")):
        rows, groups = map(int, pair.split("x"))
        cases.append((pair, 0, rows, groups))
    servers = Servers()
    try:
        for kind in KINDS:
            if kind in given.db.split(","):
                try:
                    compare(servers.get(kind), cases, given.rounds)
                except ServerUnavailable as missing:
                    print(f"\n{kind}: NOT MEASURED, {missing}")
    finally:
        servers.close()


if __name__ == "__main__":
    main()
