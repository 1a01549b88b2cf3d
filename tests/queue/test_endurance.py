"""Many jobs under one supervisor: its own sessions on a server, its memory and its descriptors are as at the start."""

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text

import sqljobs
from stress.servers.mysql_family import MysqlFamily
from stress.servers.postgresql import Postgresql
from stress.servers.process import ServerProcess
from stress.servers.server import Server
from tests.queue.conftest import Queue, Supervisors, full_size
from tests.waiting import wait_until

SHOP = Path(__file__).with_name("shop_handlers.py")
LASTING = Path(__file__).with_name("lasting_handlers.py")
PROTOCOL = ("ssl", "tls", "protocol", "unexpected", "invalid", "packet", "could not", "reset by peer", "abort")


def make_certificate(folder: Path, owner: str | None) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself; and its key."""
    folder.mkdir(exist_ok=True)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    extensions = ("subjectAltName=IP:127.0.0.1", "keyUsage=critical,digitalSignature,keyCertSign")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    made += [word for extension in extensions for word in ("-addext", extension)]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    key.chmod(0o600)
    if owner is not None:
        for path in (folder, certificate, key):
            shutil.chown(path, owner, owner)
    return certificate, key


def run_alone(engine: Engine, *statements: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        for statement in statements:
            conn.execute(text(statement))
    engine.dispose()


@pytest.fixture
def tls_url(server: Server, db_url: str, queue: Queue) -> Iterator[str]:
    """The database of `db_url`, by connections that check the server's certificate."""
    assert isinstance(server, ServerProcess)
    certificate, key = make_certificate(server.folder / "tls", server.run_as)
    if isinstance(server, Postgresql):
        begin = [f"ALTER SYSTEM SET ssl_cert_file = '{certificate}'", f"ALTER SYSTEM SET ssl_key_file = '{key}'"]
        begin += ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"]
        end = [f"ALTER SYSTEM RESET {name}" for name in ("ssl", "ssl_cert_file", "ssl_key_file")]
        end += ["SELECT pg_reload_conf()"]
        query = {"sslmode": "verify-full", "sslrootcert": str(certificate)}
    else:
        assert isinstance(server, MysqlFamily)
        given = {"ssl_ca": certificate, "ssl_cert": certificate, "ssl_key": key}
        begin = [*(f"SET GLOBAL {name} = '{path}'" for name, path in given.items()), "ALTER INSTANCE RELOAD TLS"]
        with queue.engine.connect() as conn:  # DEFAULT is not what the server has found at its start
            former = [conn.execute(text(f"SELECT @@GLOBAL.{name}")).scalar_one() for name in given]
        end = [f"SET GLOBAL {name} = '{value}'" for name, value in zip(given, former, strict=True) if value]
        end += ["ALTER INSTANCE RELOAD TLS"]
        query = {"ssl_ca": str(certificate)}
    run_alone(queue.engine, *begin)
    yield make_url(db_url).update_query_dict(query).render_as_string(hide_password=False)
    run_alone(queue.engine, *end)


PROGRAM = """
import json, sys
import shop_handlers as shop
import sqljobs

ended = sqljobs.Supervisor(sys.argv[1], shop, slots=4, until_idle=True).run()
print(json.dumps([ended, shop.BEFORE, shop.session()]))
shop.ENGINE.dispose()
"""


@pytest.mark.timeout(full_size(600, 3600))
@pytest.mark.databases("postgresql", "mysql")
def test_tls_sessions_of_the_parent_outlive_its_children(
    queue: Queue, server: Server, tls_url: str, tmp_path: Path
) -> None:
    """That of the supervisor, and that of an engine of the handlers' module, which every child uses, too."""
    assert isinstance(server, ServerProcess)
    ids = [queue.enqueue("session") for _ in range(full_size(20, 500))]
    lost = aborted(queue)
    logged = server.log.stat().st_size
    environment = {**os.environ, "SHOP_URL": tls_url}
    environment["PYTHONPATH"] = os.pathsep.join((str(SHOP.parent), environment.get("PYTHONPATH", "")))
    command = [sys.executable, "-c", PROGRAM, tls_url]
    log = tmp_path / "program.log"
    with log.open("w") as stderr:
        ran = subprocess.run(
            command,
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=full_size(500, 3500),
            check=False,
        )
    assert ran.returncode == 0, log.read_text()
    ended, before, after = json.loads(ran.stdout)
    assert (ended, after) == (0, before)
    assert {json.loads(line)["level"] for line in log.read_text().splitlines()} == {"info"}
    jobs = [queue.job(job_id) for job_id in ids]
    assert [(job.state, job.attempt) for job in jobs] == [("done", 1)] * len(ids)
    sessions = [number for number, _ in (job.result for job in jobs)]
    assert len({*sessions, before[0]}) == len(ids) + 1
    assert {version for _, version in (before, *(job.result for job in jobs))} == {"TLSv1.3"}
    said = server.log.read_text(errors="replace")[logged:].lower().splitlines()
    assert [line for line in said if any(word in line for word in PROTOCOL)] == []
    assert aborted(queue) == lost
    print(f"{server.kind}: {len(ids)} jobs, {len(set(sessions))} sessions by TLS, no error")


def aborted(queue: Queue) -> int:
    """Of how many clients MySQL says that they have gone without a word."""
    if queue.engine.dialect.name == "postgresql":
        return 0
    with queue.engine.connect() as conn:
        return int(conn.execute(text("SHOW GLOBAL STATUS LIKE 'Aborted_clients'")).one()[1])


@pytest.mark.timeout(full_size(600, 7200))
@pytest.mark.databases("sqlite")
def test_memory_and_descriptors_stay_flat_whatever_jobs_do(queue: Queue, supervisors: Supervisors) -> None:
    process = supervisors.start(handlers=LASTING, slots=4)

    def kilobytes() -> int:
        return int(Path(f"/proc/{process.pid}/status").read_text().split("VmRSS:")[1].split()[0])

    def descriptors() -> int:
        return len(os.listdir(f"/proc/{process.pid}/fd"))

    def run_portion(number: int) -> tuple[int, int]:
        queue.enqueue_many([sqljobs.JobSpec("ends", {"how": how}) for how in range(size)])
        ends = size * number
        wait_until(lambda: supervisors.log().count('"attempt ended"') == ends, what=f"{ends} ends", timeout=patience)
        # The database's file, and what is asked of a child's /proc, are open for moments.
        return kilobytes(), min(descriptors() for _ in range(50))

    size, patience = full_size(10, 200), full_size(120, 1200)
    seen = [run_portion(number) for number in range(1, 11)]
    print(f"kB and descriptors after each of {len(seen)} portions of {size} jobs: {seen}")
    memory, open_now = zip(*seen[2:], strict=True)
    assert statistics.median(memory[-3:]) - statistics.median(memory[:3]) < 2_000
    assert open_now[-1] <= open_now[0]
