"""What the looks of one tick cost beside a large queue, against the same ready rows alone. Not a test.

    python -m stress.benchmarks.tick --db sqlite,postgresql,mariadb,mysql

Fills two databases of each kind: one with `--ready` ready rows alone, one with `--others` done, blocked and scheduled
rows each beside them. Measures both in turn, so that what else the machine does weighs on both alike."""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable

from sqljobs.schema import ready
from sqljobs.schema.engine import create_engine
from sqljobs.schema.glance import glance
from sqljobs.schema.migrate import initialise
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.rows import fill_queue, refresh_statistics
from tests.servers import KINDS, Server, Servers, ServerUnavailable

SLOTS = 4
WANTED = ready.Wanted(["t"])
LOOKS: dict[str, Callable[[Transaction], object]] = {
    "scan": lambda tx: ready.scan(tx, WANTED, SLOTS),
    "in flight": ready.in_flight,
    "glance": lambda tx: glance(tx, WANTED),
}


def filled(server: Server, *, others: int, ready_rows: int) -> Database:
    """A new database with that many rows."""
    database = Database.of(create_engine(server.new_database()))
    initialise(database)
    with database.engine.begin() as conn:
        fill_queue(conn, others=others, ready=ready_rows)
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


def compare(server: Server, others: int, ready_rows: int, rounds: int) -> None:
    """Fill, measure, print one row for each look."""
    start = time.perf_counter()
    databases = [filled(server, others=n, ready_rows=ready_rows) for n in (0, others)]
    took = time.perf_counter() - start
    for database in databases:
        measured(database)  # compiles the statements, fills the server's caches
    pairs = [[measured(database) for database in databases] for _ in range(rounds)]
    alone, beside = (medians(pair[which] for pair in pairs) for which in (0, 1))
    version = ".".join(map(str, server.version()))
    print(f"\n{server.kind} {version}: filled in {took:.1f} s, {rounds} rounds")
    print(f"{'':12}{'alone, ms':>12}{'beside, ms':>12}{'ratio':>8}")
    for name in alone:
        print(f"{name:12}{alone[name]:12.2f}{beside[name]:12.2f}{beside[name] / alone[name]:8.2f}")
    for database in databases:
        database.engine.dispose()


def main() -> None:
    """Read the arguments and compare on each kind of database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", default=",".join(KINDS), help="kinds of database, separated by commas")
    parser.add_argument("--others", type=int, default=100_000, help="rows of each other state")
    parser.add_argument("--ready", type=int, default=1000, help="ready rows")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    servers = Servers()
    try:
        for kind in KINDS:
            if kind in given.db.split(","):
                try:
                    compare(servers.get(kind), given.others, given.ready, given.rounds)
                except ServerUnavailable as missing:
                    print(f"\n{kind}: NOT MEASURED, {missing}")
    finally:
        servers.close()


if __name__ == "__main__":
    main()
