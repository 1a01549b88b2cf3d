"""Holds end to end: what is committed before a claim begins is heeded by it, whoever claims."""

from pathlib import Path

import pytest
from sqlalchemy.orm import Session

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.transactions import Database
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.waiting import wait_until

HANDLERS = Path(__file__).with_name("limit_handlers.py")


def hold(queue: Queue, kind: str, name: str | int | None = None) -> None:
    with Session(queue.engine) as session, session.begin():
        sqljobs.hold(session, kind, name, reason="maintenance")


def release(queue: Queue, kind: str, name: str | int | None = None) -> None:
    with Session(queue.engine) as session, session.begin():
        sqljobs.release(session, kind, name)


def test_no_claim_after_the_hold_takes_a_held_job(queue: Queue, supervisors: Supervisors) -> None:
    count = full_size(60, 1000)
    kinds = [("t", "group"), ("u", "job")]
    specs = [JobSpec("number_wanted", {"number": n}, group=group) for n in range(count) for group, _ in kinds]
    ids = queue.enqueue_many(specs)
    for name in ("a", "b"):
        supervisors.start("--name", name, slots=4, handlers=HANDLERS)
    wait_until(lambda: [one for one in ids[:8] if queue.job(one).attempt], what="the first starts", timeout=120)
    hold(queue, "group", "t")
    committed_by = Database.of(queue.engine).read("clock", lambda tx: tx.now)
    others = sqljobs.wait(queue.engine, *ids[1::2], timeout=full_size(120, 600))
    assert {info.state for info in others} == {"done"}
    mine = [queue.job(one) for one in ids[::2]]
    late = [info.id for info in mine if info.attempts and info.attempts[0].claimed_at > committed_by]
    assert late == []
    assert any(info.state == "ready" for info in mine)
    assert {info.reason.code for info in mine if info.state == "ready" and info.reason} == {"hold"}
    release(queue, "group", "t")
    assert {info.state for info in sqljobs.wait(queue.engine, *ids, timeout=full_size(120, 600))} == {"done"}


@usually_on("sqlite", "postgresql")
@pytest.mark.parametrize("kind", ["job", "container", "type", "group", "limit", "supervisor", "all"])
def test_each_kind_holds_and_lets_go(queue: Queue, supervisors: Supervisors, kind: str) -> None:
    with Session(queue.engine) as session, session.begin():
        sqljobs.set_limit(session, "api", resource=5)
        box = sqljobs.enqueue(session, "box", container=True)
        job_id = sqljobs.enqueue(session, "number_wanted", {"number": 1}, group="g", uses={"api": 1}, parent=box)
    names: dict[str, str | int | None] = {
        "job": job_id,
        "container": box,
        "type": "number_wanted",
        "group": "g",
        "limit": "api",
        "supervisor": "alice",
        "all": None,
    }
    held = ("job" if kind == "container" else kind, names[kind])
    hold(queue, *held)
    supervisors.start("--name", "alice", handlers=HANDLERS)
    other = queue.enqueue("number_wanted", {"number": 2}, group="other")
    if kind in ("job", "container", "group", "limit"):
        assert queue.wait(other)[0].state == "done"
        assert queue.job(job_id).state == "ready"
    else:
        wait_until(lambda: "supervisor started" in supervisors.log(), what="the supervisor", timeout=60)
        assert [queue.job(one).state for one in (job_id, other)] == ["ready", "ready"]
    release(queue, *held)
    assert queue.wait(job_id)[0].state == "done"
