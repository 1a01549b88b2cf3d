"""A workflow as people have it: extract, two branches, a join, a cleanup however it ends, a notice if it ends badly."""

from typing import Any

import pytest

import sqljobs
from sqljobs import JobSpec
from tests.queue.conftest import Queue, Supervisors

pytestmark = pytest.mark.databases("sqlite", "postgresql")
NAMES = ("extract", "left", "right", "join", "cleanup", "notice")


def workflow(how: str) -> list[JobSpec]:
    """`how`: in which way the right branch ends."""
    extract = JobSpec("asynchronous", {"number": 1})
    left = JobSpec("asynchronous", {"number": 2}, after=[extract])
    right = JobSpec("ends", {"how": how}, after=[extract], max_attempts=1)
    join = JobSpec("asynchronous", {"number": 3}, after=[left, right])
    cleanup = JobSpec("looks_back", after_any=[join])
    notice = JobSpec("looks_back", after_failed=[extract, left, right, join])
    return [extract, left, right, join, cleanup, notice]


def states(queue: Queue, ids: list[int]) -> dict[str, str]:
    infos = [queue.job(job_id) for job_id in ids]
    return {
        name: info.state if info.reason is None or info.state == "failed" else f"{info.state} {info.reason.code}"
        for name, info in zip(NAMES, infos, strict=True)
    }


def all_but(**other: str) -> dict[str, str]:
    return dict.fromkeys(NAMES, "done") | other


def test_success(queue: Queue, supervisors: Supervisors) -> None:
    ids = queue.enqueue_many(workflow("well"))
    supervisors.run_until_idle()
    assert states(queue, ids) == all_but(notice="cancelled not_needed")
    assert sqljobs.doctor(queue.engine) == []


@pytest.mark.parametrize(("how", "right"), [("fail", "failed"), ("cancel", "cancelled cancelled")])
def test_failure(queue: Queue, supervisors: Supervisors, how: str, right: str) -> None:
    ids = queue.enqueue_many(workflow(how))
    supervisors.run_until_idle()
    assert states(queue, ids) == all_but(right=right, join="cancelled dependency")
    looked_back: Any = queue.job(ids[5]).result
    assert looked_back == [
        [ids[0], "done", None],
        [ids[1], "done", None],
        [ids[2], right.partition(" ")[0], "fail" if how == "fail" else "cancelled"],
        [ids[3], "cancelled", "dependency"],
    ]
    assert queue.job(ids[4]).result == [[ids[3], "cancelled", "dependency"]]
    assert sqljobs.doctor(queue.engine) == []


def test_retry_completes_it(queue: Queue, supervisors: Supervisors) -> None:
    """`ends` goes well at its second attempt; what had followed the failure has run and is not undone."""
    ids = queue.enqueue_many(workflow("raise"))
    supervisors.run_until_idle()
    assert states(queue, ids) == all_but(right="failed", join="cancelled dependency")
    with queue.engine.begin() as conn:
        assert sqljobs.retry(conn, ids[2]) == [ids[2], ids[3]]
    supervisors.run_until_idle()
    assert states(queue, ids) == all_but()
    assert len(queue.job(ids[4]).attempts) == 1
    assert sqljobs.doctor(queue.engine) == []
