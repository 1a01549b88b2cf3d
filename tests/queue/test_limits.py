"""Limits end to end: real supervisors, real kills, and the handlers' own record of what ran at once."""

import contextlib
import os
import random
import signal
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.transactions import Database
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.schema.limiting import charged, used
from tests.waiting import wait_until

HANDLERS = Path(__file__).with_name("limit_handlers.py")


def limit(queue: Queue, name: str, **options: object) -> None:
    with Session(queue.engine) as session, session.begin():
        sqljobs.set_limit(session, name, **options)  # type: ignore[arg-type]


def starts(folder: Path) -> list[tuple[int, int, int, int, float]]:
    """(job, attempt, pid, how many ran, boot time) for each start, in order."""
    path = folder / "starts"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(int(job), int(tries), int(pid), int(count), float(at)) for job, tries, pid, count, at in lines]


@pytest.mark.parametrize("most", [1, 3])
def test_a_limit_holds_under_kills(queue: Queue, supervisors: Supervisors, tmp_path: Path, most: int) -> None:
    rng = random.Random(most)
    limit(queue, "gpu", resource=most)
    count, child_kills, supervisor_kills = full_size(30, 500), full_size(3, 20), full_size(1, 3)
    arguments = {"folder": str(tmp_path), "together": most}
    ids = queue.enqueue_many([JobSpec("counted", arguments, uses={"gpu": 1}) for _ in range(count)])
    names = {supervisors.start("--name", name, slots=8, handlers=HANDLERS): name for name in ("s1", "s2")}
    wait_until((tmp_path / "together").exists, what="as many as may run at once", timeout=120)
    for number in range(child_kills + supervisor_kills):
        seen = len(starts(tmp_path))
        wait_until(lambda seen=seen: len(starts(tmp_path)) > seen + 1, what="more starts", timeout=120)  # type: ignore[misc]
        if number % (child_kills // supervisor_kills + 1) == 0:
            process = rng.choice(list(names))
            process.kill()
            process.wait()
            name = names.pop(process)
            names[supervisors.start("--name", name, slots=8, handlers=HANDLERS)] = name
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(starts(tmp_path)[-1][2], signal.SIGKILL)
    infos = sqljobs.wait(queue.engine, *ids, timeout=full_size(120, 600))
    assert Counter(info.state for info in infos) == {"done": count}
    record = starts(tmp_path)
    causes = Counter(attempt.cause for info in infos for attempt in info.attempts)
    gaps = [after[4] - before[4] for before, after in pairwise(record)]
    print(f"most at once {max(row[3] for row in record)}, causes {dict(causes)}, longest pause {max(gaps):.1f} s")
    assert max(row[3] for row in record) == most
    assert used(Database.of(queue.engine), "gpu") == 0
    assert sqljobs.doctor(queue.engine) == []


@usually_on("sqlite", "postgresql")
def test_what_needs_more_holds_nothing_meanwhile(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    limit(queue, "a", resource=1)
    limit(queue, "b", resource=0)
    behind = [JobSpec("counted", {"folder": str(tmp_path)}, uses={"a": 1, "b": 1}) for _ in range(50)]
    blocked = queue.enqueue_many(behind)
    single = queue.enqueue_many([JobSpec("counted", {"folder": str(tmp_path)}, uses={"a": 1}) for _ in range(5)])
    supervisors.start(handlers=HANDLERS)
    assert {info.state for info in queue.wait(*single)} == {"done"}
    assert {queue.job(job_id).state for job_id in blocked} == {"ready"}
    limit(queue, "b", resource=5)
    assert {info.state for info in queue.wait(*blocked)} == {"done"}
    assert max(row[3] for row in starts(tmp_path)) == 1


def test_a_rate_in_any_window(queue: Queue, supervisors: Supervisors) -> None:
    most, per, windows = full_size((5, 1.0, 4), (50, 10.0, 6))
    limit(queue, "api", rate=most, per=per)
    allowed = int(most * windows)
    ids = queue.enqueue_many([JobSpec("number_wanted", {"number": n}, uses={"api": 1}) for n in range(allowed)])
    supervisors.run_until_idle(slots=8, handlers=HANDLERS, count=2)
    claimed = sorted(queue.job(job_id).attempts[0].claimed_at.timestamp() for job_id in ids)
    for first, after in zip(claimed, claimed[most:], strict=False):
        assert after - first >= per  # starts exactly so far apart are fine
    used = sum(moment < claimed[0] + windows * per for moment in claimed)
    print(f"{used} of {allowed} starts in {windows * per:g} s, the last after {claimed[-1] - claimed[0]:.2f} s")
    if full_size(False, True):
        assert used >= 0.95 * allowed


@usually_on("sqlite", "mysql")
def test_money_adds_up_whatever_happens(queue: Queue, supervisors: Supervisors) -> None:
    limit(queue, "usd", budget=1000)
    specs = [
        JobSpec("spends", {"amounts": amounts, "end": end}, uses={"usd": "1.5"})
        for amounts in ([], ["0.1"], ["0.1", "2.000001"])
        for end in ("return", "raise", "kill")
    ]
    specs.append(JobSpec("spends", {"wrong": 1}, uses={"usd": 100}))  # its handler is not reached
    ids = queue.enqueue_many(specs)
    supervisors.run_until_idle(handlers=HANDLERS, count=2)
    infos = queue.wait(*ids)
    assert Counter(info.attempts[-1].cause for info in infos) == {"done": 3, "error": 3, "signal": 3, "bad_args": 1}
    database = Database.of(queue.engine)
    # Without spending the estimate; else what was spent, or the larger of both where the process died.
    expected = 3 * Decimal("1.5") + 2 * Decimal("0.1") + Decimal("1.5") + 3 * Decimal("2.100001")
    assert used(database, "usd") == expected == charged(database, "usd")
    assert infos[8].result is None
    assert infos[8].attempts[0].spent == {"usd": 2.100001}
    assert [len(infos[number].result) for number in (0, 3, 6)] == [0, 1, 2]


@usually_on("sqlite", "mariadb")
def test_taking_paces_a_running_job(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    limit(queue, "api", rate=3, per="0.5s")
    side = tmp_path / "taken"
    ids = [queue.enqueue("takes", {"name": "api", "count": 5, "side": str(side)}) for _ in range(2)]
    ids.append(queue.enqueue("takes_async", {"name": "api", "count": 4}))
    supervisors.run_until_idle(handlers=HANDLERS)
    infos = queue.wait(*ids)
    assert [info.state for info in infos] == ["done"] * 3, [info.error for info in infos]
    assert [info.attempts[0].spent for info in infos] == [{"api": 5}, {"api": 5}, {"api": 4}]
    assert infos[2].result > 3  # its event loop went on
    assert len(side.read_text().splitlines()) == 10


def test_taking_gives_up_in_time(queue: Queue, supervisors: Supervisors) -> None:
    limit(queue, "usd", budget=0)
    job_id = queue.enqueue("gives_up", {"name": "usd"})
    unknown = queue.enqueue("gives_up", {"name": "usdd"})
    supervisors.run_until_idle(handlers=HANDLERS)
    assert queue.wait(job_id)[0].result == (
        "there was no room in the limit 'usd' in time: try again later, or raise it"
    )
    (info,) = queue.wait(unknown)
    assert info.state == "failed"
    assert "no limit 'usdd' (did you mean 'usd'?)" in (info.error or "")


@usually_on("sqlite", "postgresql")
def test_until_idle_ends_beside_what_cannot_run(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    limit(queue, "gpu", resource=1)
    limit(queue, "usd", budget=1)
    args = {"folder": str(tmp_path)}
    never = [
        queue.enqueue("counted", args, uses={"nowhere": 1}),
        queue.enqueue("counted", args, uses={"gpu": 2}),
        queue.enqueue("counted", args, uses={"usd": 1}, group="first"),
    ]
    done = queue.enqueue("counted", args, uses={"usd": "0.5"}, priority=10, group="first")
    waits = [queue.enqueue("counted", args, uses={"gpu": 1}) for _ in range(3)]
    supervisors.run_until_idle(handlers=HANDLERS)
    assert [queue.job(job_id).state for job_id in (*never, done, *waits)] == ["ready"] * 3 + ["done"] * 4


@usually_on("sqlite", "postgresql")
def test_one_tenants_budget_delays_no_other(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    tenants = full_size(40, 500)
    limit(queue, "usd", budget=1, each="group")
    args = {"folder": str(tmp_path), "seconds": 0}
    specs = [JobSpec("counted", args, group=f"t{n}", uses={"usd": 1}) for n in range(tenants) for _ in range(2)]
    supervisors_started = [supervisors.start("--name", name, slots=8, handlers=HANDLERS) for name in ("a", "b")]
    ids = queue.enqueue_many(specs)
    infos = sqljobs.wait(queue.engine, *ids[::2], timeout=full_size(120, 600))
    assert {info.state for info in infos} == {"done"}
    assert {queue.job(job_id).state for job_id in ids[1::2]} == {"ready"}
    assert all(process.poll() is None for process in supervisors_started)
