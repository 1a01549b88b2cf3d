"""A process that enqueues in a loop. Arguments: kind of engine, SQLite file, side file, seconds."""

import sys
import time

import sqlalchemy
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

import sqljobs


def main(kind: str, file: str, side: str, seconds: str) -> None:
    """`ours` begins IMMEDIATE; `deferred` is SQLAlchemy's own engine, reads first, so must try again when refused."""
    url = f"sqlite:///{file}"
    engine = sqljobs.create_engine(url) if kind == "ours" else sqlalchemy.create_engine(url)
    deadline = time.monotonic() + float(seconds)
    accepted = refused = 0
    while time.monotonic() < deadline:
        try:
            with Session(engine) as session, session.begin():
                session.execute(text("SELECT count(*) FROM jobs WHERE state = 'ready'")).scalar_one()
                sqljobs.enqueue_many(session, [sqljobs.JobSpec("quick", {"side": side}, group=kind)] * 2)
            accepted += 2
        except OperationalError:
            if kind == "ours":
                raise
            refused += 1
        time.sleep(0.05)
    print(accepted, refused)


if __name__ == "__main__":
    main(*sys.argv[1:])
