"""A queue under load, with failures, kills, retries and cancels, looks sound to `doctor` at every moment."""

import random

from sqlalchemy import func, select

import sqljobs
from sqljobs.schema.doctor import check_up
from sqljobs.schema.errors import Refused
from sqljobs.schema.states import FINAL
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on

ENDS = ("raise", "kill", "exit", "retry", "snooze", "fail", "cancel", "bad_result")
FEWEST_LOOKS = 5


def enqueue_graph(queue: Queue, rng: random.Random, known: list[int]) -> None:
    """Twenty jobs that wait for each other and for some of before, a good part of which ends badly at first."""
    specs: list[sqljobs.JobSpec] = []
    for _ in range(20):
        after: list[int | sqljobs.JobSpec] = rng.sample([*known[-30:], *specs], k=min(2, len(known) + len(specs)))
        how = rng.choice(ENDS)
        quick = sqljobs.JobSpec("quick", {"side": str(queue.side)}, after=after)
        specs.append(quick if rng.random() < 0.6 else sqljobs.JobSpec("ends", {"how": how}, after=after))
    known += queue.enqueue_many(specs)


def meddle(queue: Queue, rng: random.Random, known: list[int]) -> None:
    """An operator cancels something and retries something, if that may be."""
    for act in (sqljobs.cancel, sqljobs.retry):
        with queue.engine.connect() as conn:
            try:
                act(conn, rng.choice(known))
            except Refused:
                conn.rollback()
            conn.commit()


def open_jobs(queue: Queue) -> int:
    with queue.engine.connect() as conn:
        final = [state.value for state in FINAL]
        return conn.execute(select(func.count()).where(jobs.c.state.not_in(final))).scalar_one()


@usually_on("sqlite", "mysql")
def test_no_false_alarm_under_load(queue: Queue, supervisors: Supervisors) -> None:
    database = Database.of(queue.engine)
    rng = random.Random(7)
    known: list[int] = []
    looks = 0
    for number in (1, 2):
        supervisors.start("--name", f"number-{number}")
    graphs = full_size(5, 40)
    while graphs or looks < FEWEST_LOOKS or open_jobs(queue):
        if graphs:
            graphs -= 1
            enqueue_graph(queue, rng, known)
            meddle(queue, rng, known)
        assert check_up(database, jobs_at_once=50) == []
        looks += 1
    supervisors.processes[0].kill()
    assert check_up(database) == []
    assert len(known) == full_size(5, 40) * 20
