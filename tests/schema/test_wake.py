"""Who gives supervisors something to do tells those that listen, once a transaction, if and only if it commits."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, text

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.configure import SCHEMA_LENGTH, configure
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import due, promote_due
from sqljobs.schema.transactions import Database
from sqljobs.schema.wake import channel, echo
from tests.schema.playing import end, put, row, run, set_off, states

pytestmark = pytest.mark.databases("postgresql")
SEEN_LAST = "the end of what was sent so far"


class Ear:
    """A session that listens."""

    def __init__(self, engine: Engine) -> None:
        url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("LISTEN sqljobs")

    def heard(self) -> list[str]:
        """The payloads of all that was committed since the last call: they come in the order of their commits."""
        self.connection.execute("SELECT pg_notify('sqljobs', %s)", [SEEN_LAST])
        payloads: list[str] = []
        waiting = self.connection.notifies()
        while (notification := next(waiting)).payload != SEEN_LAST:
            payloads.append(notification.payload)
        waiting.close()
        return payloads


@pytest.fixture
def ear(engine: Engine) -> Iterator[Ear]:
    ear = Ear(engine)
    yield ear
    ear.connection.close()


def test_an_enqueue_that_gives_work_tells_once(engine: Engine, database: Database, ear: Ear) -> None:
    put(database, key="k")
    assert ear.heard() == [""]
    with engine.begin() as conn:
        first = JobSpec("t")
        sqljobs.enqueue_many(conn, [first, JobSpec("t"), JobSpec("t", after=[first])])
        sqljobs.enqueue(conn, "t")
        assert ear.heard() == []
    assert ear.heard() == [""]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        sqljobs.enqueue(conn, "t")
        assert ear.heard() == [""]


def test_what_gives_no_work_tells_nobody(engine: Engine, database: Database, ear: Ear) -> None:
    done, held = put(database), put(database, key="k")
    run(database, done)
    set_off(database, held)
    ear.heard()
    put(database, run_after=3600)
    put(database, key="k")
    with engine.connect() as conn:
        sqljobs.enqueue(conn, "t")
        conn.rollback()
    assert ear.heard() == []
    put(database, after=[done])
    assert ear.heard() == [""], "it is ready at once"


def test_an_edge_that_a_supervisor_must_check_is_work(database: Database, ear: Ear) -> None:
    upstream = put(database)
    set_off(database, upstream)
    ear.heard()
    put(database, after=[upstream])
    assert ear.heard() == [""]


def test_ends_and_retries_tell_of_what_they_make_ready(engine: Engine, database: Database, ear: Ear) -> None:
    first, loner = put(database), put(database)
    with engine.begin() as conn:
        dependents = sqljobs.enqueue_many(conn, [JobSpec("t", after=[first]), JobSpec("t", after=[first])])
    (lease_of_first, lease_of_loner) = set_off(database, first, loner)
    ear.heard()
    end(database, lease_of_loner.fence, Outcome(Cause.FAIL))
    assert ear.heard() == []
    end(database, lease_of_first.fence)
    assert ear.heard() == [""]
    assert states(database, dependents) == ["ready", "ready"]
    with engine.begin() as conn:
        sqljobs.retry(conn, loner)
    assert ear.heard() == [""]
    upstream = put(database)
    set_off(database, upstream)
    waiting = put(database, after=[upstream])
    with engine.begin() as conn:
        sqljobs.cancel(conn, waiting)
    ear.heard()
    with engine.begin() as conn:
        sqljobs.retry(conn, waiting)
    assert (states(database, [waiting]), ear.heard()) == (["blocked"], [""]), "its edge is to be checked again"
    later = put(database, run_after=0.001)
    while row(database, later).state != "ready":
        database.transaction("due", lambda tx: promote_due(tx, due(tx)))
    assert ear.heard() == [""]


def test_a_two_phase_transaction_is_left_preparable(engine: Engine, database: Database, ear: Ear) -> None:
    with engine.connect() as conn:
        transaction = conn.begin_twophase()
        job_id = sqljobs.enqueue(conn, "t")
        transaction.prepare()
        transaction.commit()
    assert (row(database, job_id).state, ear.heard()) == ("ready", [])


def test_a_caller_may_leave_it_to_polling(engine: Engine, database: Database, ear: Ear) -> None:
    with engine.execution_options(sqljobs_notify=False).begin() as conn:
        job_id = sqljobs.enqueue(conn, "t")
    assert (row(database, job_id).state, ear.heard()) == ("ready", [])


def test_an_echo_carries_its_token(database: Database, ear: Ear) -> None:
    database.transaction("renew", lambda tx: echo(tx, "abc/1"))
    assert ear.heard() == ["abc/1"]


NAMES = st.text(min_size=1, max_size=SCHEMA_LENGTH).filter(str.isprintable).filter(lambda name: name == name.strip())


@given(NAMES, NAMES)
def test_each_schema_has_a_channel_that_any_server_takes(one: str, other: str) -> None:
    found = []
    for name in (None, one, other):
        configure(schema=name)
        found.append(channel())
    configure(schema=None)
    assert all(name.isascii() and name.replace("_", "").isalnum() and len(name) < 64 for name in found)
    assert len(set(found)) == len({None, one, other})


def test_a_long_name_is_a_channel(database: Database) -> None:
    configure(schema="ä" * SCHEMA_LENGTH)
    name = channel()
    configure(schema=None)
    with database.engine.connect() as conn:
        conn.execute(text(f"LISTEN {name}"))
        conn.execute(text("SELECT pg_notify(:name, '')"), {"name": name})
        conn.rollback()
