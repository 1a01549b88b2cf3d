"""All ways to end, at once, in one supervisor: the right state, cause, counts and evidence, and nothing is left."""

import contextlib
import os
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sqljobs
from sqljobs.schema.finalize import finalize
from sqljobs.schema.leases import held_by
from sqljobs.schema.outcomes import Backoff
from sqljobs.schema.supervisors import read_supervisors
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.reclaiming import LOST
from sqljobs.supervisor.sightings import marks_of, sightings
from tests.queue.conftest import Queue, Supervisors
from tests.queue.endings import ENDINGS, Act, End, Ending, arguments
from tests.waiting import wait_until

HANDLERS = Path(__file__).with_name("ending_handlers.py")
# A ladder that a slow machine climbs rung by rung.
OPTIONS = ("--ttl", "16", "--kill-grace", "6", "--grace", "0.1s", "--name", "one")
SLOTS = 24


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of all processes that are started from now on."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_every_ending(queue: Queue, supervisors: Supervisors, temporary: Path) -> None:
    everywhere = queue.engine.dialect.name in ("sqlite", "postgresql")
    endings = [one for one in ENDINGS if one.is_hard or everywhere]
    process = supervisors.start(*OPTIONS, handlers=HANDLERS, slots=SLOTS)
    queue.wait(queue.enqueue("breaks_stdout"))
    wait_until(lambda: "attempt ended" in supervisors.log(), what="the first end", timeout=60)
    before = kinds(process.pid)
    ids = put(queue, [one for one in endings if one.act not in (Act.STARVE, Act.SHUTDOWN)], supervisors.url)
    act(queue, ids)
    queue.wait(*ids.values())
    wait_until(lambda: not marked(queue), what="the end of all processes of jobs", timeout=60)
    wait_until(lambda: told(queue, ids), what="the evidence of each attempt", timeout=60)
    as_expected(queue, ids)
    wait_until(lambda: not kinds(process.pid) - before, what="as few descriptors as after the first end")
    for rung in ("SIGTERM", "SIGKILL"):
        assert f'"why": "timeout", "signal": "{rung}", "event": "stopping attempt"' in supervisors.log()

    with without_descriptors(process.pid, spare=4 if queue.engine.dialect.name == "sqlite" else 2):
        ids = put(queue, [one for one in endings if one.act is Act.STARVE], supervisors.url)
        for job_id in ids.values():
            queue.wait_for_cause(job_id, "interrupted")
    queue.wait(*ids.values())
    as_expected(queue, ids)

    ids = put(queue, [one for one in endings if one.act is Act.SHUTDOWN], supervisors.url)
    for ending in ids:
        wait_until(side(queue, ending).exists, what=f"{ending.name} to run", timeout=120)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    as_expected(queue, ids)
    assert not marked(queue)
    assert list(temporary.iterdir()) == []
    assert sqljobs.doctor(queue.engine) == []
    assert "Traceback" not in supervisors.log()


def side(queue: Queue, ending: Ending) -> Path:
    return queue.side.with_name(f"side of {ending.name}")


def put(queue: Queue, endings: list[Ending], url: str) -> dict[Ending, int]:
    specs = [
        sqljobs.JobSpec(one.type, arguments(one, str(side(queue, one)), url), **dict(one.options)) for one in endings
    ]
    return dict(zip(endings, queue.enqueue_many(specs), strict=True))


def act(queue: Queue, ids: dict[Ending, int]) -> None:
    """Do to each job what is to be done to it, once its handler runs."""
    for ending, job_id in ids.items():
        if ending.act is Act.NOTHING:
            continue
        wait_until(side(queue, ending).exists, what=f"{ending.name} to run", timeout=120)
        match ending.act:
            case Act.CANCEL | Act.CANCEL_NOW:
                with queue.engine.begin() as conn:
                    sqljobs.cancel(conn, job_id, now=ending.act is Act.CANCEL_NOW)
            case Act.KILL:
                pid = queue.job(job_id).attempts[0].pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
            case Act.TAKE:
                owner = str(queue.job(job_id).lease_owner)
                database = Database.of(queue.engine)
                fence = database.read("fence", lambda tx: held_by(tx, owner))[job_id]  # noqa: B023
                database.transaction("take", lambda tx: finalize(tx, fence, LOST, Backoff(0.05, 0.1)))  # noqa: B023


def descriptors(pid: int) -> dict[int, str]:
    """What a process has open, by number; SQLite's files left out: they come and go."""
    found = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    return {number: link for number, link in found.items() if ".db" not in link}


def kinds(pid: int) -> Counter[str]:
    """The same, counted: pipes, sockets, files."""
    return Counter(link.partition(":")[0] for link in descriptors(pid).values())


def marked(queue: Queue) -> list[int]:
    """The processes that carry the mark of a job of this database's supervisors."""
    known = {row.id for row in Database.of(queue.engine).read("look", read_supervisors)}
    return [one.process.pid for one in sightings() if any(mark.supervisor_id in known for mark in marks_of(one) or ())]


def told(queue: Queue, ids: dict[Ending, int]) -> bool:
    """Whether the supervisor has written what it knows of the processes of all attempts."""
    attempts = [attempt for job_id in ids.values() for attempt in queue.job(job_id).attempts]
    return all(attempt.cpu_seconds is not None and (attempt.max_rss_bytes or 0) > 2**20 for attempt in attempts)


@contextlib.contextmanager
def without_descriptors(pid: int, *, spare: int) -> Iterator[None]:
    """Meanwhile that process may open no more than `spare`: enough for its database, too few for a child."""
    taken = descriptors(pid)
    free = [number for number in range(max(taken) + spare + 2) if number not in taken]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[spare], limits[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def as_expected(queue: Queue, ids: dict[Ending, int]) -> None:
    """Fails with a line for each field that is not as the table says."""
    lines = []
    for one, job_id in ids.items():
        seen, wanted = end_of(queue.job(job_id), one.end), one.end
        lines += [
            f"{one.name}: {name} is {getattr(seen, name)!r:.300}, not {getattr(wanted, name)!r}"
            for name in vars(wanted)
            if getattr(seen, name) != getattr(wanted, name)
        ]
    assert not lines, "\n".join(lines)


def end_of(info: sqljobs.JobInfo, expected: End) -> End:
    first = info.attempts[0]
    end = End(
        state=info.state,
        causes=tuple(str(attempt.cause) for attempt in info.attempts),
        counts=(info.attempt, info.max_attempts),
        result=info.result,
        exit_code=first.exit_code,
        signal=first.signal,
        error=part(expected.error, first.error),
        dump=part(expected.dump, first.stack_dump),
        tail=part(expected.tail, first.log_tail),
    )
    free: dict[str, Any] = {name: ... for name, value in vars(expected).items() if value is ...}
    return replace(end, **free)


def part(wanted: object, text: str | None) -> object:
    """`wanted` if it is a part of the text, or if everything is; else the text."""
    return wanted if wanted is ... or (isinstance(wanted, str) and text is not None and wanted in text) else text
