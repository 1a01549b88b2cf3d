"""One open job per (type, key), whoever asks at the same time."""

import pytest
from sqlalchemy import Engine, create_engine, update
from sqlalchemy.exc import OperationalError

import sqljobs
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.schema.locks import waits_for_lock
from tests.schema.playing import count, edges, put, row, run, set_off
from tests.waiting import wait_until


def test_taken_key_returns_the_open_job_and_writes_nothing(database: Database) -> None:
    first = put(database, "t", {"n": 1}, key="k")
    before = row(database, first)
    assert put(database, "t", {"n": 2}, key="k", weight=9) == first
    assert row(database, first) == before
    assert put(database, "another type", key="k") != first
    assert put(database, key="K") != first
    assert count(database) == 3


@pytest.mark.parametrize("moves", ["nothing", "claimed", "blocked"])
def test_key_is_taken_in_every_open_state(database: Database, moves: str) -> None:
    upstream = put(database)
    first = put(database, key="k", **({"after": [upstream]} if moves == "blocked" else {}))
    if moves == "claimed":
        set_off(database, first)
    assert put(database, key="k") == first
    with pytest.raises(sqljobs.DuplicateKey, match=f"'t' with key 'k' is taken by job {first}") as raised:
        put(database, key="k", on_conflict="raise")
    assert raised.value.job_id == first


@pytest.mark.parametrize("cause", [Cause.DONE, Cause.FAIL, Cause.CANCELLED])
def test_key_is_free_after_the_end(database: Database, cause: Cause) -> None:
    first = put(database, key="k")
    run(database, first, Outcome(cause))
    assert (row(database, first).key, row(database, first).key_slot) == ("k", None)
    second = put(database, key="k", on_conflict="raise")
    assert second != first


def test_key_for_ever_stays_taken(database: Database) -> None:
    first = put(database, key="k", key_for="ever")
    run(database, first)
    assert put(database, key="k") == first
    with pytest.raises(sqljobs.DuplicateKey):
        put(database, key="k", on_conflict="raise")
    dependent = put(database, after=[put(database, key="k")])
    assert row(database, dependent).state == "ready"


def test_key_of_a_job_that_is_cancelled_at_enqueue(database: Database) -> None:
    failed = put(database)
    run(database, failed, Outcome(Cause.FAIL))
    first = put(database, key="k", after=[failed])
    assert (row(database, first).state, row(database, first).key_slot) == ("cancelled", None)
    ever = put(database, key="e", key_for="ever", after=[failed])
    assert (row(database, ever).state, row(database, ever).key_slot) == ("cancelled", "e")
    assert put(database, key="e") == ever


def test_twice_in_one_call(database: Database) -> None:
    one = sqljobs.JobSpec("t", {"n": 1}, key="k")
    two = sqljobs.JobSpec("t", {"n": 2}, key="k")
    after_both = sqljobs.JobSpec("t", after=[one, two])
    with database.engine.begin() as conn:
        ids = sqljobs.enqueue_many(conn, [one, two, after_both])
    assert ids[0] == ids[1]
    assert row(database, ids[0]).args == {"n": 1}
    assert [edge.depends_on_id for edge in edges(database, ids[2])] == [ids[0]]
    run(database, ids[0])
    assert row(database, ids[2]).state == "ready"
    assert count(database) == 2
    with database.engine.begin() as conn, pytest.raises(sqljobs.DuplicateKey, match="another job of this call"):
        sqljobs.enqueue_many(conn, [sqljobs.JobSpec("t", key="n"), sqljobs.JobSpec("t", key="n", on_conflict="raise")])
    assert count(database) == 2


def test_circle_through_a_shared_key_is_a_circle(database: Database) -> None:
    """`one` is the row of both; what the second of them is named for, the first would wait for."""
    two = sqljobs.JobSpec("t", key="k")
    one = sqljobs.JobSpec("t", key="k", after=[two])
    between = sqljobs.JobSpec("t", after=[two])
    longer = sqljobs.JobSpec("t", key="k", after=[between])
    for specs in ([one, two], [longer, between, two]):
        with database.engine.begin() as conn, pytest.raises(sqljobs.CycleError, match=r"t \(number 1\)"):
            sqljobs.enqueue_many(conn, specs)
    with database.engine.begin() as conn:  # the other way round the second asks for nothing that counts
        ids = sqljobs.enqueue_many(conn, [two, between, longer])
    assert (ids[0], row(database, ids[1]).state) == (ids[2], "blocked")


def racer(database: Database, **options: object) -> int:
    """A caller that looks for the key and inserts, in one transaction."""
    with database.engine.begin() as conn:
        return sqljobs.enqueue(conn, "t", key="k", **options)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("on_conflict", ["return", "raise"])
def test_two_at_once(database: Database, stage: Stage, on_conflict: str) -> None:
    """The loser has looked before the winner wrote, and waits for the winner's commit at its own insert."""
    winner = stage.actor(lambda: racer(database))
    loser = stage.actor(lambda: racer(database, on_conflict=on_conflict))
    loser.until("enqueue.insert")
    with database.engine.connect() as conn:
        first = sqljobs.enqueue(conn, "t", key="k")
        loser.go()
        wait_until(lambda: waits_for_lock(database), what="the loser's wait for the winner")
        conn.commit()
    if on_conflict == "return":
        assert loser.finish() == first
    else:
        with pytest.raises(sqljobs.DuplicateKey) as raised:
            loser.finish()
        assert raised.value.job_id == first
    assert winner.finish() == first
    assert count(database) == 1


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_winner_that_rolls_back(database: Database, stage: Stage) -> None:
    loser = stage.actor(lambda: racer(database))
    loser.until("enqueue.insert")
    with database.engine.connect() as conn:
        sqljobs.enqueue(conn, "t", key="k")
        loser.go()
        wait_until(lambda: waits_for_lock(database), what="the loser's wait for the winner")
        conn.rollback()
    assert row(database, loser.finish()).state == "ready"
    assert count(database) == 1


def graph_with_key(database: Database, others: list[int]) -> list[int]:
    """A call of several; the last waits for the one with the key, and for `others`."""
    keyed = sqljobs.JobSpec("t", key="k")
    specs = [keyed, sqljobs.JobSpec("t"), sqljobs.JobSpec("t", after=[keyed, *others])]
    with database.engine.begin() as conn:
        return sqljobs.enqueue_many(conn, specs)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("named_twice", [False, True], ids=["once", "twice"])
def test_lost_key_in_a_graph(database: Database, stage: Stage, named_twice: bool) -> None:
    """With `named_twice` the dependent names the winner by its id as well: one job then, and one edge."""
    with database.engine.connect() as conn:
        first = sqljobs.enqueue(conn, "t", key="k")
        conn.commit()
    with database.engine.begin() as conn:  # its key is free again for a moment, so that the loser sees none
        conn.execute(update(jobs).where(jobs.c.id == first).values(key_slot=None))
    loser = stage.actor(lambda: graph_with_key(database, [first] if named_twice else []))
    loser.until("enqueue_many.insert")
    with database.engine.begin() as conn:
        conn.execute(update(jobs).where(jobs.c.id == first).values(key_slot="k"))
    ids = loser.finish()
    assert ids[0] == first
    assert count(database) == 3
    assert [(edge.depends_on_id, edge.checked) for edge in edges(database, ids[2])] == [(first, False)]
    assert row(database, ids[2]).unmet_deps == 1
    run(database, first)
    assert row(database, ids[2]).state == "ready"


@pytest.mark.databases("postgresql")
def test_winner_that_has_ended_before_the_loser_looks_again(database: Database, stage: Stage) -> None:
    """Not on MySQL and MariaDB: there the refused insert holds a shared lock on the winner's key."""
    loser = stage.actor(lambda: racer(database))
    loser.until("enqueue.insert")
    first = put(database, key="k")
    loser.until("enqueue.keys")  # its insert has met the winner's key
    run(database, first)
    second = loser.finish()
    assert second != first
    assert (row(database, second).state, row(database, second).key_slot) == ("ready", "k")


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_loser_with_an_old_snapshot(engine: Engine, stage: Stage, level: str) -> None:
    """REPEATABLE READ is what MySQL and MariaDB give to everybody who does not ask for another level. What the database
    has refused there leaves locks behind; they must not stand in the way of jobs of other types."""
    users = create_engine(engine.url, isolation_level=level)
    database = Database.of(engine)
    with users.connect() as conn:
        assert sqljobs.enqueue(conn, "t") > 0  # the snapshot is taken here
        first = put(database, key="k")
        if (engine.dialect.name, level) == ("postgresql", "REPEATABLE READ"):
            with pytest.raises(OperationalError, match="could not serialize access"):  # PostgreSQL's own rule
                sqljobs.enqueue(conn, "t", key="k")
            conn.rollback()
            assert sqljobs.enqueue(conn, "t") > 0
        assert sqljobs.enqueue(conn, "t", key="k") == first
        others = stage.actor(lambda: run(database, put(database, "u")))
        others.go()  # while the loser's transaction stays open
        wait_until(lambda: others.has_ended, what="enqueue, claim and end of another job")
        others.finish()
        conn.commit()
    users.dispose()
    assert count(database) == 3
