"""Holds: put, replaced, ended, run out; what they cover; two operators at once; what lists and one job say of them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Engine, event, select, update
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.control_tables import job_holds
from sqljobs.schema.families import ancestors
from sqljobs.schema.holds import Around, Hold, Holds, held_containers, read_holds
from sqljobs.schema.jobs_list import list_jobs
from sqljobs.schema.jobs_read import read_jobs
from sqljobs.schema.steps import step
from sqljobs.schema.transactions import Database, Transaction
from tests.schema.actors import Stage
from tests.schema.containing import box, put_all
from tests.schema.locks import waits_for_lock
from tests.schema.playing import put, run, set_off
from tests.waiting import wait_until

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def hold(database: Database, *named: Any, **options: Any) -> None:
    with database.engine.begin() as conn:
        sqljobs.hold(conn, *named, **options)


def release(database: Database, *named: Any) -> bool:
    with database.engine.begin() as conn:
        return sqljobs.release(conn, *named)


def in_force(database: Database) -> list[tuple[str, str | None, str | None]]:
    return [(one.kind, one.name, one.reason) for one in database.read("holds", read_holds).listed]


def age(database: Database, **until: datetime) -> None:
    """Rows as if they had been written an hour ago, and ended then, where `until` says so."""
    with database.engine.begin() as conn:
        conn.execute(update(job_holds).values(since=datetime.now(UTC) - timedelta(hours=1), **until))


def test_hold_and_release(database: Database) -> None:
    job_id = put(database)
    hold(database, "job", job_id, reason="wait\nfor me")
    hold(database, "type", "t")
    hold(database, "group", "g", until="1h")
    hold(database, "limit", "gpu")
    hold(database, "supervisor", "alice")
    hold(database, "all")
    assert in_force(database) == [
        *(("all", None, None), ("group", "g", None), ("job", str(job_id), "wait\nfor me"), ("limit", "gpu", None)),
        *(("supervisor", "alice", None), ("type", "t", None)),
    ]
    assert release(database, "all")
    assert len(in_force(database)) == 5
    assert release(database, "job", str(job_id))
    assert not release(database, "job", job_id)
    assert not release(database, "type", "T")
    assert not release(database, "all")
    assert [kind for kind, _, _ in in_force(database)] == ["group", "limit", "supervisor", "type"]


def test_held_already(database: Database) -> None:
    hold(database, "type", "t", reason="one", until="1h")
    age(database)
    (before,) = database.read("holds", read_holds).listed
    hold(database, "type", "t", reason="two")
    (after,) = database.read("holds", read_holds).listed
    assert (after.reason, after.until, after.since) == ("two", None, before.since)
    hold(database, "type", "t")
    (last,) = database.read("holds", read_holds).listed
    assert (last.reason, last.until, last.since) == (None, None, before.since)


def test_until(database: Database) -> None:
    end = datetime(2099, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    for until in (end, end.isoformat()):
        hold(database, "type", "t", until=until)
        assert database.read("holds", read_holds).types["t"].until == end
    for hour in ("1h", 3600, timedelta(hours=1)):
        hold(database, "type", "t", until=hour)
        found, now = database.read("holds", lambda tx: (read_holds(tx), tx.now))
        assert timedelta(minutes=59) < (found.types["t"].until or now) - now <= timedelta(hours=1)


def test_what_has_run_out_holds_no_more(database: Database) -> None:
    hold(database, "type", "t", until="1h")
    age(database, until=datetime.now(UTC) - timedelta(minutes=1))
    assert in_force(database) == []
    hold(database, "type", "t", until="1h")
    found, now = database.read("holds", lambda tx: (read_holds(tx), tx.now))
    assert now - found.types["t"].since < timedelta(minutes=30)  # begun anew
    age(database, until=datetime.now(UTC) - timedelta(minutes=1))
    assert not release(database, "type", "t")
    hold(database, "group", "g", until=datetime(2020, 1, 1, tzinfo=UTC))
    assert in_force(database) == []


@pytest.mark.databases("sqlite")  # refused before any statement, but for unknown ids
@pytest.mark.parametrize(
    ("named", "error", "words"),
    [
        (("jobs", 1), sqljobs.InvalidJob, r"kind must be .* \(did you mean 'job'\?\)"),
        ((None, 1), sqljobs.InvalidJob, "kind must be"),
        (("job", 999), sqljobs.UnknownJob, "there is no job 999"),
        (("job", "0"), sqljobs.UnknownJob, "there is no job 0"),
        (("job", "9" * 5000), sqljobs.UnknownJob, "there is no job 999"),
        (("job", "x"), sqljobs.InvalidJob, "a job id is a whole number, not 'x'"),
        (("job", "-1"), sqljobs.InvalidJob, "a job id is a whole number"),
        (("job", True), sqljobs.InvalidJob, "a job id is a whole number"),
        (("job",), sqljobs.InvalidJob, "a job id is a whole number"),
        (("type",), sqljobs.InvalidJob, r"which type\? Name it"),
        (("group", " g"), sqljobs.InvalidJob, "group ' g' has a space at its start"),
        (("limit", 3), sqljobs.InvalidJob, "limit must be text"),
        (("supervisor", "\0"), sqljobs.InvalidJob, "supervisor .* control character"),
        (("all", "t"), sqljobs.InvalidJob, "all is all there is: leave the name 't' out"),
    ],
)
def test_refused(database: Database, named: Any, error: type[Exception], words: str) -> None:
    for call in (sqljobs.hold, sqljobs.release):
        if named == ("job", 999) and call is sqljobs.release:
            continue
        with database.engine.begin() as conn, pytest.raises(error, match=words):
            call(conn, *named)
    assert in_force(database) == []


@pytest.mark.databases("sqlite")
def test_refused_reason_and_until(database: Database) -> None:
    with pytest.raises(sqljobs.InvalidJob, match=r"until .* has no UTC offset"):
        hold(database, "type", "t", until=datetime(2099, 1, 1))
    with pytest.raises(sqljobs.InvalidJob, match="until must be a time such as"):
        hold(database, "type", "t", until="tomorrow")
    with pytest.raises(sqljobs.InvalidJob, match="reason must be text, not 3"):
        hold(database, "type", "t", reason=3)
    assert in_force(database) == []
    hold(database, "type", "t", reason="  \n")
    hold(database, "type", "u", reason="a\0b\ud800")
    assert in_force(database) == [("type", "t", None), ("type", "u", "a\\x00b\\ud800")]


def test_names_are_compared_by_bytes(database: Database) -> None:
    for name in ("a", "A", "á", "a b", "1"):
        hold(database, "type", name, reason=name)
    assert {name: one.reason for name, one in database.read("h", read_holds).types.items()} == {
        name: name for name in ("a", "A", "á", "a b", "1")
    }


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_two_at_once(database: Database, stage: Stage) -> None:
    """The second waits for the first to commit, and then replaces what that one said."""

    def holding(reason: str) -> Callable[[], None]:
        def act() -> None:
            with database.engine.begin() as conn:
                sqljobs.hold(conn, "type", "t", reason=reason)
                step(f"{reason} holds")

        return act

    one, two = stage.actor(holding("one")), stage.actor(holding("two"))
    one.until("one holds")
    two.go()
    wait_until(lambda: waits_for_lock(database), what="the second to wait for the first")
    one.finish()
    two.finish()
    assert in_force(database) == [("type", "t", "two")]


def test_a_caller_that_rolls_back(database: Database) -> None:
    with Session(database.engine) as session:
        sqljobs.hold(session, "all")
        session.rollback()
    assert in_force(database) == []
    hold(database, "all")
    with Session(database.engine) as session:
        assert sqljobs.release(session, "all")
        session.rollback()
    assert in_force(database) == [("all", None, None)]


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE", "REPEATABLE READ"])
def test_any_callers_level(database: Database, engine: Engine, level: str) -> None:
    if engine.dialect.name == "sqlite" and level == "REPEATABLE READ":
        level = "READ UNCOMMITTED"
    users = sqlalchemy.create_engine(engine.url, isolation_level=level)
    with users.connect() as conn:
        sqljobs.hold(conn, "type", "t", reason="one")
        sqljobs.hold(conn, "type", "t", reason="two")
        sqljobs.hold(conn, "group", "g")
        assert sqljobs.release(conn, "group", "g")
        sqljobs.set_group(conn, "g", weight=3)
        conn.commit()
    users.dispose()
    assert in_force(database) == [("type", "t", "two")]


@pytest.mark.databases("sqlite", "postgresql")
def test_async(database: Database, engine: Engine) -> None:
    url = engine.url.set(drivername={"sqlite": "sqlite+aiosqlite"}.get(engine.dialect.name, engine.url.drivername))
    users = create_async_engine(url)

    async def act() -> None:
        async with AsyncSession(users) as session, session.begin():
            await sqljobs.aio.hold(session, "type", "t", reason="r", until="1h")
            await sqljobs.aio.hold(session, "group", "g")
            assert await sqljobs.aio.release(session, "group", "g")
            await sqljobs.aio.set_limit(session, "gpu", resource=2)
            await sqljobs.aio.set_group(session, "g", weight=3)
        await users.dispose()

    asyncio.run(act())
    assert in_force(database) == [("type", "t", "r")]


def held(kind: str, name: str | None = None) -> Hold:
    return Hold(kind, name, None, NOW, None)


def test_what_holds_cover() -> None:
    everything = [held("job", "7"), held("type", "t"), held("group", "g"), held("limit", "l"), held("supervisor", "s")]
    holds = Holds(everything)
    job, job_type, group, limit, supervisor = everything
    assert holds.of_all is None
    assert holds.covering(1, "u", "h") is None
    assert holds.covering(7, "u", "h") == job
    assert holds.covering(1, "t", "h") == job_type
    assert holds.covering(1, "u", "g") == group
    assert holds.covering(1, "u", "h", ["m", "l"]) == limit
    assert holds.covering(1, "s", "s", ["s"]) is None
    around = [Around(2, "box", "h"), Around(7, "box", "g")]
    assert holds.covering(1, "u", "h", ancestors=around) == job
    assert holds.all_covering(1, "t", "g", ["l"], around) == [job_type, group, limit, job]
    assert holds.supervisor("s") == supervisor
    assert holds.supervisor("t") is None
    with_all = Holds([*everything, held("all")])
    assert with_all.of_all == held("all")
    assert with_all.covering(1, "u", "h") == held("all")
    assert with_all.supervisor("t") == held("all")
    assert with_all.all_covering(7, "u", "h") == [job, held("all")]
    assert not Holds()
    assert Holds([held("limit", "l"), held("all")]).may_hold_containers is False


def nested(database: Database) -> tuple[list[int], list[int]]:
    """Three containers, each in the one before, a job in each; their ids."""
    outer = JobSpec("outer", container=True, group="o")
    middle = JobSpec("middle", container=True, group="m", parent=outer)
    inner = JobSpec("inner", container=True, group="i", parent=middle)
    leaves = [JobSpec("leaf", parent=one, group="l") for one in (outer, middle, inner)]
    ids = put_all(database, outer, middle, inner, *leaves)
    return ids[:3], ids[3:]


@pytest.mark.parametrize("kind", ["job", "type", "group"])
def test_a_held_container_holds_all_inside(database: Database, kind: str) -> None:
    containers, leaves = nested(database)
    other = put_all(database, *box(JobSpec("leaf", group="l")))
    by_kind: dict[str, list[Any]] = {"type": ["outer", "middle", "inner"], "group": ["o", "m", "i"]}
    names: list[Any] = by_kind.get(kind, containers)
    for place, name in enumerate(names):
        hold(database, kind, name, reason="no")
        found = database.read("held", lambda tx: held_containers(tx, read_holds(tx)))
        assert found == frozenset(containers[place:])
        infos = database.read("read", lambda tx: read_jobs(tx, [*leaves, *other]))
        reasons = [info.reason for info in infos]
        assert [reason and reason.code for reason in reasons[:3]] == [None] * place + ["hold"] * (3 - place)
        assert reasons[3:] == [None, None]
        innermost = reasons[2]
        assert innermost is not None
        assert innermost.job_id == containers[place]
        assert innermost.text == f"waits with container {containers[place]}: {kind} {name} is held: no"
        listed = database.read("list", lambda tx: list_jobs(tx, [*leaves, *other]))
        assert [job.reason for job in listed] == reasons
        assert release(database, kind, name)


def test_the_chain_that_covering_takes(database: Database) -> None:
    containers, leaves = nested(database)
    hold(database, "group", "o")
    around = database.read("around", lambda tx: ancestors(tx, [leaves[2]]))
    assert [row.id for row in around] == containers[::-1]
    holds = database.read("holds", read_holds)
    found = holds.covering(leaves[2], "leaf", "l", ancestors=around)
    assert found is not None
    assert found.kind == "group"


def test_without_such_holds_nothing_is_asked(database: Database) -> None:
    statements: list[str] = []
    hold(database, "limit", "l")
    hold(database, "all")

    def look(tx: Transaction) -> None:
        event.listen(tx.conn, "before_cursor_execute", lambda *args: statements.append(args[2]))
        assert held_containers(tx, read_holds(tx)) == frozenset()
        assert len(statements) == 1

    database.read("held", look)


def test_reason_of_open_jobs(database: Database) -> None:
    ready = put(database)
    running, later = put(database), put(database, run_after="1h")
    blocked, ended = put(database, after=[running]), put(database)
    uses = put(database, "u", uses={"gpu": 1})
    run(database, ended)
    set_off(database, running)
    end = datetime(2099, 1, 1, tzinfo=UTC)
    hold(database, "type", "t", reason="no", until=end)
    hold(database, "limit", "gpu")

    def reasons() -> list[Any]:
        ids = [ready, running, later, blocked, ended, uses]
        listed = [job.reason for job in database.read("list", lambda tx: list_jobs(tx, ids))]
        assert listed == [info.reason for info in database.read("read", lambda tx: read_jobs(tx, ids))]
        return [found and (found.code, found.text, found.until and found.until == end) for found in listed]

    found = reasons()
    assert found[0] == ("hold", "type t is held: no", True)
    assert [one and one[0] for one in found[1:5]] == [None, "scheduled", "dependency", None]
    assert found[5] == ("hold", "limit gpu is held", None)
    for kind, name in (("type", "t"), ("limit", "gpu")):
        release(database, kind, name)
    assert [one and one[0] for one in reasons()] == [None, None, "scheduled", "dependency", None, None]
    hold(database, "all", reason="stop")
    assert reasons()[0] == ("hold", "all jobs are held: stop", None)
    hold(database, "job", ready)
    assert reasons()[0] == ("hold", f"job {ready} is held", None)


def test_the_rows(database: Database) -> None:
    """The unique key is what the four databases keep; the name of `all` is empty."""
    hold(database, "all")
    hold(database, "all")
    with database.engine.connect() as conn:
        assert [tuple(row)[:2] for row in conn.execute(select(job_holds))] == [("all", "")]
