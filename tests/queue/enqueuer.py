"""A process that enqueues in a loop. Arguments: kind of engine, URL, side file, seconds."""

import sys
import time

import sqlalchemy
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

import sqljobs


def main(kind: str, url: str, side: str, seconds: str) -> None:
    """`ours`, or `plain`: SQLAlchemy's own, which on SQLite begins deferred: as it reads first, it may be refused."""
    engine = sqljobs.create_engine(url) if kind == "ours" else sqlalchemy.create_engine(url)
    deadline = time.monotonic() + float(seconds)
    accepted = refused = 0
    last: list[int] = []
    while time.monotonic() < deadline:
        first = sqljobs.JobSpec("quick", {"side": side}, group=kind, after=last)
        second = sqljobs.JobSpec("quick", {"side": side}, group=kind, after=[first])
        try:
            with Session(engine) as session, session.begin():
                session.execute(text("SELECT count(*) FROM jobs WHERE state = 'ready'")).scalar_one()
                ids = sqljobs.enqueue_many(session, [first, second])
            accepted += 2
            last = ids[:1]
        except OperationalError:
            if kind == "ours" or engine.dialect.name != "sqlite":
                raise
            refused += 1
        time.sleep(0.05)
    engine.dispose()
    print(accepted, refused)


if __name__ == "__main__":
    main(*sys.argv[1:])
