"""Servers that are up and of no use: sessions killed, read-only, no connection left, silent. Everything ends."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url, select, text
from sqlalchemy.exc import OperationalError

import sqljobs
from sqljobs.schema.control_tables import job_supervisors
from tests.queue.conftest import HANDLERS, Queue, Supervisors, full_size
from tests.schema.proxy import Proxy
from tests.schema.sessions import SESSIONS_MYSQL, SESSIONS_POSTGRESQL, Killer, hooked
from tests.waiting import wait_until

pytestmark = pytest.mark.databases(*full_size(("postgresql", "mysql"), ("postgresql", "mariadb", "mysql")))
LEASES = ["--heartbeat", "1", "--ttl", "60", "--deadline", "50", "--kill-grace", "1"]
LIMITED = "limited"


@pytest.fixture
def administrator(queue: Queue) -> Iterator[Connection]:
    engine = sqljobs.create_engine(queue.engine.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        yield conn
    engine.dispose()


@contextmanager
def limited_user(queue: Queue, administrator: Connection) -> Iterator[str]:
    """The URL of an account without the rights by which an administrator is exempt from limits."""
    url = make_url(queue.engine.url)
    name = url.database
    if administrator.dialect.name == "postgresql":
        create = [f"CREATE ROLE {LIMITED} LOGIN PASSWORD 'x'", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {LIMITED}"]
        create += [f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {LIMITED}"]
        drop = [f"DROP OWNED BY {LIMITED}", f"DROP ROLE {LIMITED}"]
    else:
        create = [f"CREATE USER {LIMITED} IDENTIFIED BY 'x'", f"GRANT ALL ON {name}.* TO {LIMITED}"]
        drop = [f"DROP USER {LIMITED}"]
    for statement in create:
        administrator.execute(text(statement))
    yield url.set(username=LIMITED, password="x").render_as_string(hide_password=False)
    kill_sessions(administrator)
    for statement in drop:
        administrator.execute(text(statement))


def kill_sessions(conn: Connection) -> int:
    """Kill all sessions in the database but this one; returns how many there were."""
    postgresql = conn.dialect.name == "postgresql"
    sessions = conn.execute(text(SESSIONS_POSTGRESQL if postgresql else SESSIONS_MYSQL)).scalars().all()
    for session in sessions:
        try:
            conn.execute(text(f"SELECT pg_terminate_backend({session})" if postgresql else f"KILL {session}"))
        except OperationalError as error:
            if "Unknown thread" not in str(error):  # it has left by itself
                raise
    return len(sessions)


def all_done(queue: Queue, ids: list[int]) -> None:
    infos = queue.wait(*ids)
    assert {info.state for info in infos} == {"done"}
    assert {cause for info in infos for cause in [attempt.cause for attempt in info.attempts]} == {"done"}


def stop(supervisors: Supervisors) -> None:
    process = supervisors.processes[-1]
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


def test_sessions_killed_again_and_again(queue: Queue, supervisors: Supervisors, administrator: Connection) -> None:
    ids = queue.enqueue_many([sqljobs.JobSpec("nap", {"seconds": 0.1}) for _ in range(20)])
    queue.engine.dispose()
    supervisors.start(*LEASES, slots=3)
    killed = 0

    def enough() -> bool:
        nonlocal killed
        killed += kill_sessions(administrator)
        return killed >= 15

    wait_until(enough, what="many sessions to be killed", interval=0.2)
    all_done(queue, ids)
    stop(supervisors)


@pytest.mark.parametrize(
    ("step", "times"),
    [("look.supervisors", 3), ("register.insert", 3), ("register.commit", 1), ("rehearsal.move_claim", 3)],
)
def test_sessions_killed_while_a_supervisor_starts(queue: Queue, step: str, times: int) -> None:
    """It was there a moment ago: that is an outage, not a reason to end."""
    administrator = sqljobs.create_engine(queue.engine.url, isolation_level="AUTOCOMMIT")
    killer = Killer(administrator, step, times=times)
    supervisor = sqljobs.Supervisor(queue.engine.url.render_as_string(hide_password=False), str(HANDLERS), slots=1)
    with hooked(killer.on_step):
        supervisor.tick()
    assert killer.killed
    queue.engine.dispose()
    with queue.engine.connect() as conn:
        rows = conn.execute(select(job_supervisors.c.name, job_supervisors.c.state)).all()
    assert [tuple(row) for row in rows] == [(socket.gethostname(), "running")]
    supervisor.stop()
    administrator.dispose()


def test_server_that_only_reads_for_a_while(queue: Queue, supervisors: Supervisors, administrator: Connection) -> None:
    """As a primary that was demoted: what runs is not lost, and ends when writing is allowed again."""
    name = queue.engine.url.database
    postgresql = administrator.dialect.name == "postgresql"
    switch = (
        f"ALTER DATABASE {name} SET default_transaction_read_only = {{}}" if postgresql else "SET GLOBAL read_only = {}"
    )
    gate = queue.side.with_name("gate")
    ids = [queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)}) for _ in range(2)]
    with limited_user(queue, administrator) as url:
        queue.engine.dispose()
        supervisors.start("--url", url, *LEASES, slots=2)
        queue.wait_for_notes(2)
        administrator.execute(text(switch.format("on")))
        try:
            kill_sessions(administrator)
            gate.touch()
            wait_until(lambda: "cannot be used" in supervisors.log(), what="the supervisor to notice")
        finally:
            administrator.execute(text(switch.format("off")))
        all_done(queue, ids)
        stop(supervisors)


def test_no_connection_left_for_a_while(queue: Queue, supervisors: Supervisors, administrator: Connection) -> None:
    ids = queue.enqueue_many([sqljobs.JobSpec("nap", {"seconds": 0.1}) for _ in range(6)])
    with limited_user(queue, administrator) as url:
        queue.engine.dispose()
        supervisors.start("--url", url, *LEASES, slots=3)
        postgresql = administrator.dialect.name == "postgresql"
        none, many = (
            (f"ALTER ROLE {LIMITED} CONNECTION LIMIT 0", f"ALTER ROLE {LIMITED} CONNECTION LIMIT -1")
            if postgresql
            else (
                f"ALTER USER {LIMITED} WITH MAX_USER_CONNECTIONS 1",
                f"ALTER USER {LIMITED} WITH MAX_USER_CONNECTIONS 0",
            )
        )
        wait_until(lambda: "attempt started" in supervisors.log(), what="the first start")
        administrator.execute(text(none))
        kill_sessions(administrator)
        if postgresql:
            wait_until(lambda: "cannot be used" in supervisors.log(), what="the supervisor to notice")
        else:  # it has the one that there is, and its children find none
            wait_until(lambda: administrator.execute(text(SESSIONS_MYSQL)).all(), what="the supervisor to be back")
        administrator.execute(text(many))
        all_done(queue, ids)
        stop(supervisors)


def test_server_that_falls_silent(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    """It takes every request and answers none, nothing is cut: a hung job is killed all the same, and all goes on."""
    with Proxy(queue.engine.url) as proxy:
        url = proxy.url.render_as_string(hide_password=False)
        gate = tmp_path / "gate"
        held = queue.enqueue("hold", {"side": str(queue.side), "until": str(gate)})
        hung = queue.enqueue("hold", {"side": str(queue.side), "until": str(tmp_path / "never")}, timeout=3)
        ids = [held]
        supervisors.start("--url", url, *LEASES, slots=2)
        notes = queue.wait_for_notes(2)
        (hung_pid,) = [pid for _, job, _, pid, _ in notes if job == hung]
        proxy.silent = True
        wait_until(lambda: not Path(f"/proc/{hung_pid}").exists(), what="the hung job to be killed")
        wait_until(lambda: "cannot be used" in supervisors.log(), what="the supervisor to notice")
        gate.touch()
        proxy.silent = False
        all_done(queue, ids)
        queue.wait_for_cause(hung, "timeout")
        stop(supervisors)
