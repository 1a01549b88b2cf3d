"""What an idle supervisor costs: statements and CPU seconds while there is nothing to do. Not a test.

    python -m stress.benchmarks.idle --db sqlite,postgresql,mariadb,mysql --seconds 60

Runs a supervisor with its default settings in this process. Counts what its engine sends, BEGIN, COMMIT and ROLLBACK
included where they are sent. Two things pass by the engine: a LISTEN at the start, and on SQLite a look at the file's
data version, five times a second, which reads no page of it."""

import argparse
import resource
import signal
from collections import Counter
from types import FrameType, ModuleType
from typing import Any

from sqlalchemy import Engine, event

from sqljobs.schema.engine import create_engine
from sqljobs.schema.migrate import initialise
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.supervise import Supervisor
from sqljobs.worker_runtime.registry import handler
from stress.servers import KINDS, Server, Servers, ServerUnavailable

WARM_UP_SECONDS = 5.0


def nothing() -> None:
    """A job type that nobody enqueues."""


class Meter:
    """Counts the statements of every engine in this process, by their first word."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        event.listen(Engine, "before_cursor_execute", self._executes)
        for word in ("BEGIN", "COMMIT", "ROLLBACK"):
            event.listen(Engine, word.lower(), lambda conn, word=word: self._transacts(conn, word))

    def _executes(self, _conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self.words[statement.split(maxsplit=1)[0].upper()] += 1

    def _transacts(self, conn: Any, word: str) -> None:
        # On SQLite we have executed it, if it is sent at all; the drivers of MySQL and MariaDB send no BEGIN.
        if conn.dialect.name == "postgresql" or (conn.dialect.name != "sqlite" and word != "BEGIN"):
            self.words[word] += 1


def measure(server: Server, seconds: float, meter: Meter) -> None:
    """Run one supervisor for so long and print a row."""
    url = server.new_database()
    engine = create_engine(url)
    initialise(Database.of(engine))
    engine.dispose()
    module = ModuleType("idle_handlers")
    module.nothing = handler(nothing)  # type: ignore[attr-defined]
    supervisor = Supervisor(url, module, slots=2)
    start: list[resource.struct_rusage] = []

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        if start:
            supervisor.stop()
            return
        meter.words.clear()
        start.append(resource.getrusage(resource.RUSAGE_SELF))
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, WARM_UP_SECONDS)
    supervisor.run()
    end = resource.getrusage(resource.RUSAGE_SELF)
    signal.signal(signal.SIGALRM, before)
    cpu = end.ru_utime + end.ru_stime - start[0].ru_utime - start[0].ru_stime
    version = ".".join(map(str, server.version()))
    total = meter.words.total()
    print(f"{server.kind} {version}: {total / seconds:.2f} statements/s, {cpu:.2f} CPU s in {seconds:g} s", end=" ")
    print(dict(meter.words.most_common()))


def main() -> None:
    """Read the arguments and measure each kind of database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", default=",".join(KINDS), help="kinds of database, separated by commas")
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    servers = Servers()
    meter = Meter()
    try:
        for kind in KINDS:
            if kind in given.db.split(","):
                try:
                    measure(servers.get(kind), given.seconds, meter)
                except ServerUnavailable as missing:
                    print(f"{kind}: NOT MEASURED, {missing}")
    finally:
        servers.close()


if __name__ == "__main__":
    main()
