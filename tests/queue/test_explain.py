"""`explain` names what keeps a job, and the job runs once that is gone: real supervisors, public calls alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

import sqljobs
from tests.queue.conftest import Queue, Supervisors
from tests.waiting import wait_until


@pytest.fixture
def until(tmp_path: Path) -> Path:
    """The file that jobs of type `hold` wait for."""
    return tmp_path / "until"


def told(queue: Queue, job_id: int) -> list[sqljobs.Reason]:
    with Session(queue.engine) as session:
        return sqljobs.explain(session, job_id)


def codes(queue: Queue, job_id: int) -> list[str]:
    return [reason.code for reason in told(queue, job_id)]


def change(queue: Queue, call: Callable[..., object], *args: Any, **options: Any) -> None:
    with Session(queue.engine) as session, session.begin():
        call(session, *args, **options)


def wait_for_codes(queue: Queue, job_id: int, *wanted: str) -> sqljobs.Reason:
    """Until these are the reasons; returns the first."""
    what = f"{wanted} of job {job_id}"
    wait_until(lambda: codes(queue, job_id) == list(wanted), what=what, timeout=90)
    return told(queue, job_id)[0]


def start_holding(queue: Queue, until: Path, **options: Any) -> int:
    """A job that runs until the file is there."""
    job_id = queue.enqueue("hold", {"side": str(queue.side), "until": str(until)}, **options)
    wait_for_codes(queue, job_id, "running")
    return job_id


def quick(queue: Queue, **options: Any) -> int:
    return queue.enqueue("quick", {"side": str(queue.side)}, **options)


def assert_runs(queue: Queue, *ids: int) -> None:
    assert [info.state for info in queue.wait(*ids)] == ["done"] * len(ids)
    assert [codes(queue, job_id) for job_id in ids] == [["ended"]] * len(ids)


def test_supervisors(queue: Queue, supervisors: Supervisors) -> None:
    job_id = quick(queue, group="b")
    assert codes(queue, job_id) == ["no_supervisor"]
    supervisors.start("--only-type", "nap")
    wait_for_codes(queue, job_id, "unknown_type")
    supervisors.start("--only-group", "b")
    assert_runs(queue, job_id)


def test_dependency_and_time(queue: Queue, supervisors: Supervisors, until: Path) -> None:
    supervisors.start()
    upstream = start_holding(queue, until)
    box = queue.enqueue("box", container=True, after=[upstream])
    member, follower = quick(queue, parent=box), quick(queue, after=[upstream])
    delayed = quick(queue, run_after="3s")
    assert codes(queue, delayed) == ["scheduled"]
    assert [told(queue, job_id)[0].job_id for job_id in (member, follower, box)] == [box, upstream, upstream]
    assert {code for job_id in (member, follower, box) for code in codes(queue, job_id)} == {"dependency"}
    until.touch()
    assert_runs(queue, member, follower, box, delayed)


def test_slots(queue: Queue, supervisors: Supervisors, until: Path) -> None:
    supervisors.start(slots=1)
    busy = start_holding(queue, until)
    job_id = quick(queue)
    assert wait_for_codes(queue, job_id, "rank").blockers == (busy,)
    until.touch()
    assert_runs(queue, busy, job_id)


@pytest.mark.parametrize("kind", ["job", "type", "group", "limit", "supervisor", "all", "container"])
def test_hold(queue: Queue, supervisors: Supervisors, kind: str) -> None:
    change(queue, sqljobs.set_limit, "api", resource=1)
    with Session(queue.engine) as session, session.begin():
        box = sqljobs.enqueue(session, "box", container=True)
        job_id = sqljobs.enqueue(session, "quick", {"side": str(queue.side)}, group="g", uses={"api": 1}, parent=box)
        names: dict[str, int | str] = {
            "job": job_id,
            "container": box,
            "type": "quick",
            "group": "g",
            "limit": "api",
            "supervisor": "alice",
        }
        held, name = "job" if kind == "container" else kind, names.get(kind)
        sqljobs.hold(session, held, name, reason="as asked")
    supervisors.start("--name", "alice")
    reason = wait_for_codes(queue, job_id, "hold")
    assert "as asked" in reason.text
    assert reason.job_id == (box if kind == "container" else None)
    change(queue, sqljobs.release, held, name)
    assert_runs(queue, job_id)


def test_limits(queue: Queue, supervisors: Supervisors, until: Path) -> None:
    change(queue, sqljobs.set_limit, "api", resource=1)
    change(queue, sqljobs.set_limit, "closed", budget=0)
    supervisors.start()
    holder = start_holding(queue, until, uses={"api": 1})
    waits, closed, unknown = (quick(queue, uses={name: 1}) for name in ("api", "closed", "unheard of"))
    too_much = quick(queue, uses={"api": 1.5})
    assert wait_for_codes(queue, waits, "limit").blockers == (holder,)
    wait_for_codes(queue, closed, "limit")
    wait_for_codes(queue, unknown, "no_such_limit")
    wait_for_codes(queue, too_much, "impossible")
    change(queue, sqljobs.set_limit, "closed", budget=5)
    change(queue, sqljobs.set_limit, "unheard of", rate=5, per="1s")
    assert_runs(queue, closed, unknown)
    until.touch()
    assert_runs(queue, holder, waits)
    assert codes(queue, too_much) == ["impossible"]
    change(queue, sqljobs.set_limit, "api", resource=2)
    assert_runs(queue, too_much)


def test_devices(queue: Queue, supervisors: Supervisors, until: Path) -> None:
    supervisors.start("--device", "gpu=0,1")
    holder = start_holding(queue, until, uses={"gpu": 1})
    waits, too_much = quick(queue, uses={"gpu": 2}), quick(queue, uses={"gpu": 3})
    assert wait_for_codes(queue, waits, "device").blockers == (holder,)
    wait_for_codes(queue, too_much, "impossible")
    until.touch()
    assert_runs(queue, holder, waits)
    supervisors.start("--device", "gpu=a,b,c")
    assert_runs(queue, too_much)
