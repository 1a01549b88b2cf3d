"""A long queue of one group keeps no other group from the next tick, nor does it hide what stands behind it."""

import pytest
from sqlalchemy.orm import Session

import sqljobs
from sqljobs import JobSpec
from tests.queue.conftest import HANDLERS, Queue, full_size


@pytest.mark.databases("sqlite", "postgresql")
def test_the_others_start_at_the_next_tick(queue: Queue) -> None:
    args = {"side": str(queue.side)}
    for _ in range(full_size(2, 100)):
        queue.enqueue_many([JobSpec("quick", args, group="big") for _ in range(1000)])
    with Session(queue.engine) as session, session.begin():
        sqljobs.set_limit(session, "gpu", resource=1)
        sqljobs.hold(session, "limit", "gpu")
    queue.enqueue_many([JobSpec("quick", args, group="blocked", uses={"gpu": 1}) for _ in range(100)])
    behind = queue.enqueue("quick", args, group="blocked")
    others = [queue.enqueue("quick", args, group=f"g{number}") for number in range(10)]
    queue.engine.dispose()
    url = queue.engine.url.render_as_string(hide_password=False)
    supervisor = sqljobs.Supervisor(url, str(HANDLERS), slots=12)
    supervisor.tick()
    assert {queue.job(job_id).attempt for job_id in (*others, behind)} == {1}
    queue.engine.dispose()
    supervisor.stop()
    assert {info.state for info in queue.wait(*others, behind)} == {"done"}
