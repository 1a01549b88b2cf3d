"""What an idle supervisor asks again and again: right about each kind of work, in one statement."""

from typing import Any

from sqlalchemy import event, update

from sqljobs.schema.engine import create_own_engine
from sqljobs.schema.glance import Glance, glance
from sqljobs.schema.outcomes import Backoff
from sqljobs.schema.ready import Wanted
from sqljobs.schema.tables import job_deps
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.duties import Duties
from tests.schema.playing import put, run, set_off, states

WANTED = Wanted(["t", "u"])
NOTHING = Glance(unchecked=False, left=False, ready=False, due_in=None)


def seen(database: Database, wanted: Wanted = WANTED) -> Glance:
    return database.read("look", lambda tx: glance(tx, wanted))


def test_ready_means_ready_for_this_supervisor(database: Database) -> None:
    assert seen(database) == NOTHING
    put(database, "nobody's")
    assert seen(database) == NOTHING
    job_id = put(database, "u", group="g")
    assert seen(database).ready
    assert seen(database, Wanted(["u"], ["f", "g"])).ready
    assert seen(database, Wanted(["u"], ["f"])) == seen(database, Wanted(["t"])) == NOTHING
    (lease,) = set_off(database, job_id)
    assert seen(database) == NOTHING
    waiting = put(database, "t", after=[lease.job_id])
    assert (seen(database).unchecked, seen(database).ready) == (True, False)
    assert states(database, [waiting]) == ["blocked"]
    with database.engine.begin() as conn:
        conn.execute(update(job_deps).values(checked=True))
    assert seen(database) == NOTHING


def test_the_first_that_falls_due_is_told_by_the_clock_of_the_database(database: Database) -> None:
    put(database, run_after=7200)
    far = seen(database).due_in
    put(database, "nobody's", run_after=3600)
    near = seen(database).due_in
    assert far is not None
    assert near is not None
    assert 3600 < far <= 7200
    assert 0 < near <= 3600
    put(database, run_after=0.001)
    while (due_in := seen(database).due_in) is None or due_in > 0:
        assert due_in is None or due_in <= 0.001
    assert not seen(database).ready, "another makes it ready"


def test_a_round_of_chores_with_nothing_to_do_is_one_glance(database: Database) -> None:
    run(database, put(database))
    put(database, "nobody's")
    put(database, run_after=3600)
    engine = create_own_engine(database.engine.url, answer_seconds=30.0)
    duties = Duties(Database.of(engine), "me", 10.0, lambda _: Backoff(), None)
    duties.run(100.0, [], WANTED)  # the first round reclaims, too
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    assert duties.run(101.0, [], WANTED) == (False, False)
    clock = 0 if database.dialect.name == "sqlite" else 1
    assert len(statements) == 1 + clock, statements
    assert duties.next_due is not None
    assert 101.0 < duties.next_due <= 101.0 + 3600
    engine.dispose()
