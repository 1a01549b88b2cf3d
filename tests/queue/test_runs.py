"""From enqueue to done with real supervisors and children, on each database."""

import random
from collections import Counter

import pytest
from sqlalchemy import select

import sqljobs
from sqljobs.schema.tables import job_attempts
from tests.queue.conftest import Queue, Supervisors, full_size


def attempts(queue: Queue) -> list[tuple[int, int, int, str]]:
    """(job, attempt, pid, cause) of all rows."""
    columns = (job_attempts.c.job_id, job_attempts.c.attempt, job_attempts.c.pid, job_attempts.c.cause)
    with queue.engine.connect() as conn:
        return [tuple(row) for row in conn.execute(select(*columns))]


def test_two_supervisors_start_each_job_once(queue: Queue, supervisors: Supervisors) -> None:
    count = full_size(40, 1000)
    specs = [sqljobs.JobSpec("quick", {"side": str(queue.side)}, group=f"g{n % 7}") for n in range(count)]
    ids = queue.enqueue_many(specs)
    supervisors.run_until_idle(count=2)
    rows = attempts(queue)
    assert {cause for *_, cause in rows} == {"done"}
    assert sorted((job, attempt, pid) for job, attempt, pid, _ in rows) == sorted(note[1:4] for note in queue.notes())
    assert sorted(job for job, *_ in rows) == sorted(ids)
    assert Counter(info.state for info in queue.wait(*ids)) == {"done": count}


def test_no_job_starts_before_all_that_it_names_are_done(queue: Queue, supervisors: Supervisors) -> None:
    rng = random.Random(20261129)
    specs: list[sqljobs.JobSpec] = []
    for _ in range(full_size(30, 300)):
        after = rng.sample(specs, min(len(specs), rng.choice([0, 1, 1, 2, 3, 8])))
        specs.append(sqljobs.JobSpec("after_all", {"side": str(queue.side)}, after=after))
    shuffled = rng.sample(specs, len(specs))
    ids = dict(zip(shuffled, queue.enqueue_many(shuffled), strict=True))
    supervisors.run_until_idle(count=2)
    infos = {info.id: info for info in queue.wait(*ids.values())}
    assert Counter(info.state for info in infos.values()) == {"done": len(specs)}
    started = {job: moment for _, job, _, _, moment in queue.notes()}
    for spec, job_id in ids.items():
        named = [ids[upstream] for upstream in spec.given["after"]]
        assert infos[job_id].result == named
        assert all(started[upstream] < started[job_id] for upstream in named)


def test_a_failure_cancels_what_waits_for_it(queue: Queue, supervisors: Supervisors) -> None:
    root = sqljobs.JobSpec("ends", {"how": "fail"})
    middle = sqljobs.JobSpec("asynchronous", {"number": 1}, after=[root])
    leaf = sqljobs.JobSpec("asynchronous", {"number": 2}, after=[middle])
    ids = queue.enqueue_many([leaf, middle, root])
    supervisors.run_until_idle()
    leaf_info, middle_info, root_info = queue.wait(*ids)
    assert (root_info.state, middle_info.state, leaf_info.state) == ("failed", "cancelled", "cancelled")
    for info in (leaf_info, middle_info):
        assert info.reason is not None
        assert (info.reason.code, info.reason.job_id) == ("dependency", root_info.id)
        assert info.attempts == ()


def test_what_does_not_run_is_refused_and_late_jobs_are_left(queue: Queue, supervisors: Supervisors) -> None:
    unknown = queue.enqueue("nobody_knows_me")
    later = queue.enqueue("asynchronous", {"number": 1}, run_after="2h")
    soon = queue.enqueue("asynchronous", {"number": 2}, run_after=0.5)
    supervisors.run_until_idle()
    assert [queue.job(job_id).state for job_id in (unknown, later, soon)] == ["ready", "scheduled", "done"]


@pytest.mark.databases("postgresql")
def test_groups_share_the_starts_by_weight(queue: Queue, supervisors: Supervisors) -> None:
    """Weights 1, 2, 5 on 3 slots, always backlogged: the share of the first starts is within 10 % of the weights'."""
    counted = full_size(120, 400)
    specs = [
        sqljobs.JobSpec("quick", {"side": str(queue.side)}, group=group, weight=weight)
        for group, weight in (("one", 1), ("two", 2), ("five", 5))
        for _ in range(counted)
    ]
    groups = dict(zip(queue.enqueue_many(specs), (spec.given["group"] for spec in specs), strict=True))
    process = supervisors.start(slots=3)
    notes = queue.wait_for_notes(counted)[:counted]
    process.kill()
    starts = Counter(groups[job] for _, job, *_ in notes)
    for group, weight in (("one", 1), ("two", 2), ("five", 5)):
        share = starts[group] / counted
        assert abs(share - weight / 8) <= 0.1 * weight / 8 + 1 / counted, starts
