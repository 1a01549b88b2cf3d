"""What a supervisor's row tells of it, and a job's of its units: exactly what was written."""

from decimal import Decimal

from sqlalchemy import update

from sqljobs.schema.jobs_read import read_jobs
from sqljobs.schema.supervisors import Registration, read_supervisors, register
from sqljobs.schema.tables import job_attempts
from sqljobs.schema.transactions import Database
from tests.schema.playing import lease, put


def test_amounts_are_exact(database: Database) -> None:
    uses = {"t": {"gpu": Decimal(1), 'é"\n': Decimal("999999999999.999999")}, "u": {"api": Decimal("0.000001")}}
    wanted = Registration("1", "alice", "host", "boot", 1, 1, 4, ["t"], 60.0, 10.0, type_uses=uses, only_groups=["g"])
    register(database, wanted)
    register(database, Registration("2", "bob", "host", "boot", 1, 1, 4, ["t"], 60.0, 10.0))
    first, second = database.read("look", read_supervisors)
    assert (first.type_uses, first.only_groups, first.devices) == (uses, ["g"], None)
    assert (second.type_uses, second.only_groups, second.devices) == (None, None, None)


def test_a_job_has_the_units_of_its_last_attempt(database: Database) -> None:
    job_id, other = put(database), put(database)
    lease(database, job_id)
    units = {"gpu": ["0", "MIG é"]}
    with database.engine.begin() as conn:
        conn.execute(update(job_attempts).where(job_attempts.c.job_id == job_id).values(devices=units))
    first, second = database.read("look", lambda tx: read_jobs(tx, [job_id, other]))
    assert (first.devices, second.devices) == (units, None)
