"""A SQLite file on a disk that is full: nothing is damaged, and when there is room again all jobs end."""

import os
import signal
from pathlib import Path

import pytest
from sqlalchemy import text

import sqljobs
from sqljobs.schema import migrate
from sqljobs.schema.transactions import Database
from tests.queue.conftest import Queue, Supervisors
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="mounts a small disk, which needs root")


def fill(file: Path) -> None:
    """Take all the room that is left, to the last block."""
    with file.open("ab", buffering=0) as ballast:
        for size in (65536, 4096, 512):
            try:
                while ballast.write(b"\0" * size):
                    continue
            except OSError:
                continue


def test_disk_full_for_a_while(small_disk: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{small_disk / 'jobs.db'}"
    engine = sqljobs.create_engine(url)
    migrate.initialise(Database.of(engine))
    queue = Queue(engine, tmp_path / "side")
    supervisors = Supervisors(url, tmp_path)
    gate = tmp_path / "gate"
    ids = [queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)}) for _ in range(2)]
    ids += [queue.enqueue("quick", {"side": str(queue.side)}) for _ in range(6)]
    process = supervisors.start(slots=2)
    try:
        queue.wait_for_notes(2)
        ballast = small_disk / "ballast"
        fill(ballast)
        gate.touch()
        wait_until(lambda: "cannot be used" in supervisors.log(), what="the supervisor to notice", timeout=60)
        assert process.poll() is None
        ballast.unlink()
        infos = queue.wait(*ids)
        assert {info.state for info in infos} == {"done"}
        assert [attempt.cause for attempt in infos[0].attempts] == ["done"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        with engine.connect() as conn:
            assert conn.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
        assert sqljobs.doctor(engine) == []
    finally:
        process.kill()
        process.wait()
        engine.dispose()
