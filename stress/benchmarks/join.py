"""What it costs that others wait for jobs: a fan-in, or a container, against the same jobs alone. Not a test.

    python -m stress.benchmarks.join --db sqlite,postgresql --jobs 10000

Real supervisors with real children on new databases, the variants in turn, so that what else the machine does weighs on
all alike. Measured is the time from the first claim to the last end of a job, by the database's clock."""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from sqlalchemy import func, select

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.migrate import initialise
from sqljobs.schema.tables import job_attempts
from sqljobs.schema.transactions import Database
from stress.servers import KINDS, Server, Servers, ServerUnavailable

HANDLERS = """
import sqljobs

@sqljobs.handler
def quick() -> None:
    return None
"""
VARIANTS = ("alone", "fan-in", "container")


def specs(variant: str, count: int) -> list[JobSpec]:
    """So many jobs, and what waits for them."""
    box = JobSpec("box", container=True)
    jobs = [JobSpec("quick", parent=box) if variant == "container" else JobSpec("quick") for _ in range(count)]
    match variant:
        case "fan-in":
            return [*jobs, JobSpec("quick", after=jobs)]
        case "container":
            return [box, *jobs, JobSpec("quick", after=[box])]
        case _:
            return jobs


def seconds(server: Server, variant: str, count: int, slots: int, handlers: Path) -> float:
    """One run on a new database."""
    url = server.new_database()
    engine = sqljobs.create_engine(url)
    initialise(Database.of(engine))
    with engine.begin() as conn:
        sqljobs.enqueue_many(conn, specs(variant, count))
    engine.dispose()
    command = [sys.executable, "-m", "sqljobs.supervisor", "--url", url, "run", "--handlers", str(handlers)]
    subprocess.run([*command, "--until-idle", "--slots", str(slots)], check=True, stderr=subprocess.DEVNULL)
    with engine.connect() as conn:
        first, last, ended = conn.execute(
            select(func.min(job_attempts.c.claimed_at), func.max(job_attempts.c.ended_at), func.count())
        ).one()
    engine.dispose()
    server.drop_database(url)
    assert ended == len([one for one in specs(variant, count) if one.type == "quick"])
    return float((last - first).total_seconds())


def compare(server: Server, count: int, slots: int, rounds: int, handlers: Path) -> None:
    """Run the variants in turn and print their medians."""
    taken: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for _ in range(rounds):
        for variant in VARIANTS:
            taken[variant].append(seconds(server, variant, count, slots, handlers))
    alone = statistics.median(taken["alone"])
    print(f"\n{server.kind}: {count} jobs, {slots} slots, {rounds} rounds in turn")
    for variant, values in taken.items():
        median = statistics.median(values)
        print(f"{variant:12}{median:10.2f} s  {median / alone:6.2f}  ({min(values):.2f} to {max(values):.2f})")


def main() -> None:
    """Read the arguments and compare on each kind of database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", default=",".join(KINDS), help="kinds of database, separated by commas")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    servers = Servers()
    with tempfile.TemporaryDirectory() as folder:
        handlers = Path(folder) / "handlers.py"
        handlers.write_text(HANDLERS)
        try:
            for kind in given.db.split(","):
                try:
                    compare(servers.get(kind), given.jobs, given.slots, given.rounds, handlers)
                except ServerUnavailable as missing:
                    print(f"\n{kind}: not measured, {missing}")
        finally:
            servers.close()


if __name__ == "__main__":
    main()
