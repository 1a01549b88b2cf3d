"""Many writers on one database: no job and no supervisor ends for a lock or a deadlock; a SQLite file stays whole."""

import signal
import subprocess
import sys
from pathlib import Path

from sqlalchemy import text

import sqljobs
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.waiting import wait_until

LOCK_TROUBLE = ("locked", "Deadlock", "deadlock", "Lock wait timeout")


@usually_on("sqlite", "mariadb", "mysql")
def test_eight_finalizers_four_enqueuers_and_the_claim_loops(queue: Queue, supervisors: Supervisors) -> None:
    seconds = full_size(2, 120)
    started = [supervisors.start(slots=4) for _ in range(2)]
    program = str(Path(__file__).with_name("enqueuer.py"))
    url = queue.engine.url.render_as_string(hide_password=False)
    enqueuers = [
        subprocess.Popen(
            [sys.executable, program, kind, url, str(queue.side), str(seconds)], stdout=subprocess.PIPE, text=True
        )
        for kind in ("ours", "ours", "plain", "plain")
    ]
    accepted = 0
    for enqueuer in enqueuers:
        output, _ = enqueuer.communicate(timeout=seconds + 60)
        assert enqueuer.returncode == 0
        accepted += int(output.split()[0])

    def still_open() -> int:
        with queue.engine.connect() as conn:
            return int(conn.execute(text("SELECT count(*) FROM jobs WHERE ended_at IS NULL")).scalar_one())

    wait_until(lambda: still_open() == 0, what="the queue to drain", timeout=full_size(150, 900), interval=0.5)
    for process in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    with queue.engine.connect() as conn:
        ends = conn.execute(text("SELECT state, count(*) FROM jobs GROUP BY state")).all()
        causes = conn.execute(text("SELECT cause, count(*) FROM job_attempts GROUP BY cause")).all()
        if conn.dialect.name == "sqlite":
            assert conn.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
    print(f"accepted {accepted}, jobs {ends}, attempts {causes}, starts {len(queue.notes())}")
    assert [tuple(row) for row in ends] == [("done", accepted)]
    assert [tuple(row) for row in causes] == [("done", accepted)]
    assert len(queue.notes()) == accepted
    assert not [word for word in LOCK_TROUBLE if word in supervisors.log(0) + supervisors.log(1)]
    assert sqljobs.doctor(queue.engine) == []
