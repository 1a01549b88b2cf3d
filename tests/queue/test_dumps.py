"""Databases of every former version come up to date, and their jobs go on."""

import pytest

import sqljobs
from sqljobs.schema import migrate
from sqljobs.schema.transactions import Database
from stress.servers.server import Server
from tests.dumps.load import FOLDER, load
from tests.queue.conftest import Queue, Supervisors

VERSIONS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name.isdigit())


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_database_goes_on(server: Server, db_url: str, supervisors: Supervisors, version: str) -> None:
    engine = sqljobs.create_engine(db_url)
    load(engine, version, server.kind)
    database = Database.of(engine)
    assert migrate.current_version(database) == version
    assert migrate.initialise(database) == migrate.newest_version()
    supervisors.run_until_idle()
    queue = Queue(engine, supervisors.folder / "side")
    jobs = {job.args.get("number", "ends"): job for job in (queue.job(job_id) for job_id in range(1, 10))}
    done, failed, held, after_done, after_failed = (jobs[name] for name in (2**70, "ends", 1, 7, 8))
    assert (done.state, done.result, done.group, done.key) == ("done", {"b": 1, "a": "ü\\"}, "Äé😀", "order-1")
    assert (failed.state, failed.error, after_failed.state) == ("failed", "no use; 100 %", "cancelled")
    assert [attempt.cause for attempt in held.attempts] == ["lost", "done"]
    assert [after_done.state, jobs[9].state, jobs[12].state] == ["done", "scheduled", "cancelled"]
    assert (jobs[10].state, jobs[10].key, jobs[11].state) == ("done", "it's a \\ 'key'", "done")
    engine.dispose()
