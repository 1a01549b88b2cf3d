"""Jobs that spawn others, run by real supervisors: all or none, whatever kills the child; and who waits for them."""

from collections import Counter

import pytest
from sqlalchemy import func, select

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.tables import jobs
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.waiting import wait_until


def members(queue: Queue, parents: list[int]) -> dict[int, int]:
    statement = select(jobs.c.parent_id, func.count().label("number")).group_by(jobs.c.parent_id)
    with queue.engine.connect() as conn:
        return {row.parent_id: row.number for row in conn.execute(statement) if row.parent_id in parents}


@usually_on("sqlite", "postgresql")
def test_a_child_that_is_killed_around_its_end_spawns_all_or_nothing(queue: Queue, supervisors: Supervisors) -> None:
    count, children = full_size((8, 20), (50, 100))
    ids = queue.enqueue_many([JobSpec("spawns", {"children": children, "how": "killed"}) for _ in range(count)])
    process = supervisors.start(slots=4)

    def all_wait() -> bool:
        return all(queue.job(job_id).state == "waiting" for job_id in ids)

    wait_until(all_wait, what="all to have spawned", timeout=full_size(90, 600), interval=0.2)
    assert members(queue, ids) == dict.fromkeys(ids, children)
    causes = Counter(attempt.cause for job_id in ids for attempt in queue.job(job_id).attempts)
    print(f"causes {dict(causes)}")
    assert causes["done"] == count
    assert causes.keys() <= {"done", "signal"}
    assert causes["signal"], "nobody was killed"
    with queue.engine.connect() as conn:
        assert conn.execute(select(func.count()).select_from(jobs)).scalar_one() == count * (children + 2)
    process.kill()
    process.wait()
    assert sqljobs.doctor(queue.engine) == []


@usually_on("sqlite", "postgresql")
def test_what_is_refused_or_fails_spawns_nothing(queue: Queue, supervisors: Supervisors) -> None:
    refused, fails = queue.enqueue_many(
        [JobSpec("spawns", {"children": 3, "how": how}, max_attempts=1) for how in ("refused", "fails")]
    )
    supervisors.run_until_idle()
    assert [queue.job(i).state for i in (refused, fails)] == ["failed", "failed"]
    assert members(queue, [refused, fails]) == {}
    told = queue.job(refused).error
    assert told is not None
    assert "what the handler has enqueued was refused: after: there is no job 1000000000" in told


@usually_on("sqlite", "postgresql", "mysql")
def test_jobs_that_spawn_jobs_that_spawn(queue: Queue, supervisors: Supervisors) -> None:
    first = queue.enqueue("divides", {"into": 3})
    gathers, sums = queue.enqueue("gathers", after=[first]), queue.enqueue("gathers", after_failed=[first])
    supervisors.run_until_idle(count=2)
    (top, done, unneeded) = queue.wait(first, gathers, sums)
    assert (top.state, top.result, top.container) == ("done", 3, True)
    assert (top.child_counts.done, len(top.children)) == (3, 3)
    assert done.result == [[2, 2, 2]]
    assert (unneeded.state, unneeded.reason and unneeded.reason.code) == ("cancelled", "not_needed")
    with queue.engine.connect() as conn:
        assert conn.execute(select(func.count()).where(jobs.c.state == "done")).scalar_one() == 1 + 3 + 6 + 6 + 1
    assert sqljobs.doctor(queue.engine) == []


@pytest.mark.databases("sqlite", "postgresql")
def test_a_member_that_the_handler_commits_by_itself(queue: Queue, supervisors: Supervisors) -> None:
    url = queue.engine.url.render_as_string(hide_password=False)
    job_id = queue.enqueue("adds_own_member", {"url": url})
    supervisors.run_until_idle()
    info = queue.job(job_id)
    assert (info.state, info.result, info.child_counts.done) == ("done", "own", 1)
    assert sqljobs.doctor(queue.engine) == []


@usually_on("sqlite", "postgresql", "mariadb")
def test_members_that_end_at_once_on_many_children(queue: Queue, supervisors: Supervisors) -> None:
    """Whoever ends last rolls up, once; who found the container's row taken leaves the count to a supervisor."""
    count = full_size(60, 500)
    box = JobSpec("box", container=True)
    specs = [box, *(JobSpec("asynchronous", {"number": n}, parent=box) for n in range(count))]
    ids = queue.enqueue_many(
        [*specs, JobSpec("gathers", after=[box]), JobSpec("quick", {"side": str(queue.side)}, after=[box])]
    )
    supervisors.run_until_idle(count=2, slots=4)
    outer, *_, gathered, started = [queue.job(i) for i in (ids[0], ids[-2], ids[-1])]
    assert (outer.state, outer.result) == ("done", {"done": count, "failed": 0, "cancelled": 0})
    assert gathered.result == [[n + 1 for n in range(count)]]
    assert (started.state, len(queue.notes())) == ("done", 1)
    assert sqljobs.doctor(queue.engine) == []
