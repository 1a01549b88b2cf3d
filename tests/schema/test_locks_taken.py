"""How many rows a claim locks, as the server counts them: those that it takes, however many are ready."""

import pytest
from sqlalchemy import Engine, select, text

from sqljobs.schema.claim import claim
from sqljobs.schema.ready import Wanted
from sqljobs.schema.scan import scan
from sqljobs.schema.states import State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.playing import ALICE, no_options
from tests.schema.rows import fill

ROWS, TAKEN = 50_000, 10


@pytest.fixture
def crowded(engine: Engine, database: Database) -> Database:
    with engine.begin() as conn:
        fill(conn, State.READY, ROWS)
    return database


@pytest.mark.databases("mariadb", "mysql")
def test_claim_of_ten_among_fifty_thousand(crowded: Database) -> None:
    """Locked by any other way than their primary keys, all that is walked over would be."""
    wanted = Wanted(["t"])
    ids = [job.job_id for job in crowded.read("scan", lambda tx: scan(tx, wanted, TAKEN))]
    assert len(ids) == TAKEN

    def work(tx: Transaction) -> tuple[int, int]:
        leases = claim(tx, ALICE, ids, no_options)
        mine = "SELECT trx_rows_locked FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = connection_id()"
        return len(leases), int(tx.conn.execute(text(mine)).scalar_one())

    claimed, locked = crowded.transaction("claim", work)
    assert claimed == TAKEN
    assert TAKEN <= locked <= 3 * TAKEN  # a row and its entries in the indexes that change
    with crowded.engine.connect() as conn:
        assert conn.execute(select(jobs.c.id).where(jobs.c.lease_owner == ALICE.owner)).scalars().all() == ids
