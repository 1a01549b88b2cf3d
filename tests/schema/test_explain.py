"""`explain` for each code, and that the list is shorter once the reason is removed."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, update
from sqlalchemy.orm import Session

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.claim import Lease
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from sqljobs.schema.windows import FOR_EVER, window_at
from tests.schema.containing import FAILED, act, box, put_all
from tests.schema.explaining import (
    change_crew,
    charge,
    codes,
    crew,
    end_holds,
    free,
    give_units,
    limit,
    now,
    only,
    put_hold,
    reasons,
    spend,
)
from tests.schema.playing import end, put, run, set_off
from tests.schema.sessions import hooked

GPUS = {"gpu": {"units": ["0", "1"]}}


def test_nothing_keeps_a_lonely_job(database: Database) -> None:
    crew(database, slots=1)
    assert reasons(database, put(database)) == []


def test_unknown_ids(database: Database) -> None:
    for job_id in (7, 0, 2**63):
        with database.engine.connect() as conn, pytest.raises(sqljobs.UnknownJob, match=str(job_id)):
            sqljobs.explain(conn, job_id)
    with database.engine.connect() as conn, pytest.raises(sqljobs.InvalidJob, match="job id"):
        sqljobs.explain(conn, "1")  # type: ignore[arg-type]


def test_dependency(database: Database) -> None:
    crew(database)
    first, second = put(database), put(database)
    job_id = put(database, after=[second], after_any=[first])
    reason = only(database, job_id)
    assert (reason.code, reason.job_id, reason.blockers) == ("dependency", second, (second, first))
    assert f"jobs {second} (t, ready) and {first} (t, ready)" in reason.text
    run(database, second)
    assert only(database, job_id).blockers == (first,)
    run(database, first)
    assert codes(database, job_id) == []


def test_many_dependencies(database: Database) -> None:
    crew(database)
    ids = put_all(database, *(JobSpec("t") for _ in range(30)))
    reason = only(database, put(database, after=ids))
    assert reason.blockers == tuple(ids[:20])
    assert "and 27 more" in reason.text


def test_dependency_of_a_container_around(database: Database) -> None:
    crew(database)
    upstream = put(database)
    outer = JobSpec("box", container=True, after=[upstream])
    inner = JobSpec("box", container=True, parent=outer)
    outer_id, inner_id, member = put_all(database, outer, inner, JobSpec("t", parent=inner))
    reason = only(database, member)
    assert (reason.code, reason.job_id, reason.blockers) == ("dependency", outer_id, (upstream,))
    for container in (outer_id, inner_id):
        assert codes(database, container) == ["dependency"]
    assert only(database, inner_id).job_id == outer_id
    run(database, upstream)
    assert codes(database, member) == []
    assert codes(database, outer_id) == ["container"]


def test_scheduled(database: Database) -> None:
    crew(database)
    job_id = put(database, run_after="1h")
    reason = only(database, job_id)
    assert reason.code == "scheduled"
    with database.engine.connect() as conn:
        assert reason.until == sqljobs.get_job(conn, job_id).run_after
    with database.engine.begin() as conn:
        conn.execute(update(jobs).values(run_after=now(database)))
    assert codes(database, job_id) == []  # the next tick makes it ready, and may claim it


def test_backoff(database: Database) -> None:
    crew(database)
    job_id = put(database)
    run(database, job_id, Outcome(Cause.ERROR, error="Traceback\nValueError: no", after=60.0))
    reason = only(database, job_id)
    assert reason.code == "scheduled"
    assert "attempt 1 of at most 5 ended as error (ValueError: no)" in reason.text


def test_dependency_and_time(database: Database) -> None:
    crew(database)
    job_id = put(database, after=[put(database)], run_after="1h")
    assert codes(database, job_id) == ["dependency", "scheduled"]


@pytest.mark.parametrize("kind", ["job", "type", "group", "limit", "all"])
def test_hold(database: Database, kind: str) -> None:
    crew(database)
    limit(database, "l 1", 1)
    job_id = put(database, group="g", uses={"l 1": 1})
    name = {"job": job_id, "type": "t", "group": "g", "limit": "l 1", "all": ""}[kind]
    until = now(database) + timedelta(hours=1)
    put_hold(database, kind, name, reason="as\nasked", until=until)
    reason = only(database, job_id)
    assert (reason.code, reason.job_id, reason.until) == ("hold", None, until)
    assert "as asked" in reason.text
    command = "all" if kind == "all" else "limit 'l 1'" if kind == "limit" else f"{kind} {name}"
    assert f"`sqljobs release {command}`" in reason.text
    end_holds(database)
    assert codes(database, job_id) == []


def test_each_hold_is_told(database: Database) -> None:
    crew(database)
    job_id = put(database)
    put_hold(database, "type", "t")
    put_hold(database, "all")
    put_hold(database, "group", "other")
    put_hold(database, "job", job_id, until=now(database) - timedelta(seconds=1))
    assert codes(database, job_id) == ["hold", "hold"]


@pytest.mark.parametrize("kind", ["job", "type", "group"])
def test_hold_of_a_container_around(database: Database, kind: str) -> None:
    crew(database)
    outer_id, member = put_all(database, *box(JobSpec("t", group="inside"), group="around"))
    put_hold(database, kind, {"job": outer_id, "type": "box", "group": "around"}[kind])
    reason = only(database, member)
    assert (reason.code, reason.job_id) == ("hold", outer_id)
    end_holds(database)
    assert codes(database, member) == []


def test_hold_of_the_only_supervisor(database: Database) -> None:
    crew(database)
    crew(database, "bob", types=["u"])
    job_id = put(database)
    put_hold(database, "supervisor", "alice")
    reason = only(database, job_id)
    assert reason.code == "hold"
    assert "`sqljobs release supervisor alice`" in reason.text
    crew(database, "carol")
    assert codes(database, job_id) == []


def test_no_supervisor(database: Database) -> None:
    job_id = put(database)
    assert only(database, job_id).code == "no_supervisor"
    crew(database, state="gone", name_slot=None)
    crew(database, "bob", heartbeat_at=now(database) - timedelta(hours=1))
    assert only(database, job_id).code == "no_supervisor"
    change_crew(database, "bob", heartbeat_at=now(database))
    assert codes(database, job_id) == []


@pytest.mark.parametrize("leaving", [{"state": "draining"}, {"state": "stopping"}, {"drain_requested_at": None}])
def test_all_that_know_it_leave(database: Database, leaving: dict[str, Any]) -> None:
    crew(database, "bob", types=["u"])
    columns: dict[str, Any] = {name: value or now(database) for name, value in leaving.items()}
    crew(database, **columns)
    job_id = put(database)
    reason = only(database, job_id)
    assert reason.code == "no_supervisor"
    assert "alice" in reason.text
    crew(database, "carol")
    assert codes(database, job_id) == []


def test_unknown_type(database: Database) -> None:
    crew(database, types=["u"])
    job_id = put(database)
    assert only(database, job_id).code == "unknown_type"
    change_crew(database, "alice", types=["t", "u"])
    assert codes(database, job_id) == []


def test_narrowed_to_other_groups(database: Database) -> None:
    crew(database, only_groups=["a", "b"])
    job_id = put(database, group="c")
    reason = only(database, job_id)
    assert (reason.code, "'c'" in reason.text) == ("unknown_type", True)
    assert codes(database, put(database, group="b")) == []
    change_crew(database, "alice", only_groups=["c"])
    assert codes(database, job_id) == []


def test_no_such_limit(database: Database) -> None:
    crew(database)
    job_id = put(database, uses={"api": 2})
    reason = only(database, job_id)
    assert (reason.code, "'api'" in reason.text) == ("no_such_limit", True)
    limit(database, "api", 2)
    assert codes(database, job_id) == []


def test_uses_of_the_handler(database: Database) -> None:
    crew(database, type_uses={"t": {"api": 1.5}})
    job_id = put(database)
    assert codes(database, job_id) == ["no_such_limit"]
    assert codes(database, put(database, uses={})) == []
    limit(database, "api", 1)
    assert codes(database, job_id) == ["impossible"]
    limit(database, "api", 1.5)
    assert codes(database, job_id) == []


def test_impossible(database: Database) -> None:
    crew(database)
    limit(database, "api", 2)
    job_id = put(database, uses={"api": 2.5})
    reason = only(database, job_id)
    assert reason.code == "impossible"
    assert "2.5" in reason.text
    limit(database, "api", 3)
    assert codes(database, job_id) == []


def test_resource_in_use(database: Database) -> None:
    alice = crew(database)
    limit(database, "api", 2)
    holder, job_id = put(database), put(database, uses={"api": 1})
    (held,) = set_off(database, holder, claimer=alice)
    charge(database, "api", holder, 1.5)
    reason = only(database, job_id)
    assert (reason.code, reason.until, reason.blockers) == ("limit", None, (holder,))
    assert "1.5 of its 2 are held" in reason.text
    end(database, held.fence)
    free(database, "api")
    assert codes(database, job_id) == []


def test_rate_in_use(database: Database) -> None:
    alice = crew(database)
    limit(database, "api", 1, kind="rate", per="600")
    holder, job_id = put(database), put(database, uses={"api": 1})
    set_off(database, holder, claimer=alice)
    begun = now(database)
    charge(database, "api", holder, 1, kind="rate", ago=100)
    reason = only(database, job_id)
    assert (reason.code, reason.blockers) == ("limit", (holder,))
    assert reason.until is not None
    assert abs(reason.until - begun - timedelta(seconds=500)) < timedelta(seconds=60)
    free(database, "api")
    charge(database, "api", holder, 1, kind="rate", ago=601)
    assert codes(database, job_id) == []


@pytest.mark.parametrize("per", [None, "day"])
def test_budget_spent(database: Database, per: str | None) -> None:
    crew(database)
    limit(database, "usd", 10, kind="budget", per=per)
    window = window_at(per, now(database))
    spend(database, "usd", FOR_EVER if per is None else window.key, 9.5)
    job_id = put(database, uses={"usd": 0.75})
    reason = only(database, job_id)
    assert (reason.code, reason.until) == ("limit", window.end)
    assert "9.5" in reason.text
    limit(database, "usd", 11, kind="budget", per=per)
    assert codes(database, job_id) == []


def test_closed_limit(database: Database) -> None:
    crew(database)
    limit(database, "api", 0)
    job_id = put(database, uses={"api": 5})
    reason = only(database, job_id)
    assert (reason.code, "closed" in reason.text) == ("limit", True)
    limit(database, "api", 5)
    assert codes(database, job_id) == []


def test_limit_of_each_group(database: Database) -> None:
    crew(database)
    limit(database, "usd", 1, kind="budget", each=True)
    spend(database, "usd", FOR_EVER, 1, group="a")
    spent, fresh = put(database, group="a", uses={"usd": 1}), put(database, group="b", uses={"usd": 1})
    assert "'a'" in only(database, spent).text
    assert codes(database, fresh) == []


def test_device_in_use(database: Database) -> None:
    alice = crew(database, devices=GPUS)
    crew(database, "bob", types=["u"], devices={"gpu": {"units": ["7", "8", "9"]}})
    holder, job_id = put(database, uses={"gpu": 1}), put(database, uses={"gpu": 2})
    with database.engine.begin() as conn:  # claimed with its units, which only a supervisor can give
        conn.execute(update(jobs).where(jobs.c.id == holder).values(uses=None))
    (held,) = set_off(database, holder, claimer=alice)
    give_units(database, holder, gpu=["1"])
    reason = only(database, job_id)
    assert (reason.code, reason.blockers) == ("device", (holder,))
    assert codes(database, put(database, uses={"gpu": 1})) == []
    end(database, held.fence)
    assert codes(database, job_id) == []


@pytest.mark.parametrize("asked", [3, 0.5])
def test_device_that_nobody_has(database: Database, asked: float) -> None:
    crew(database, devices=GPUS)
    job_id = put(database, uses={"gpu": asked})
    reason = only(database, job_id)
    assert (reason.code, "'gpu'" in reason.text) == ("impossible", True)
    crew(database, "bob", devices={"gpu": {"units": ["0", "1", "2"]}})
    assert codes(database, job_id) == ([] if asked == 3 else ["impossible"])


def test_device_of_supervisors_that_cannot_run_it(database: Database) -> None:
    crew(database)
    crew(database, "bob", types=["u"], devices=GPUS)
    job_id = put(database, uses={"gpu": 1})
    assert codes(database, job_id) == ["impossible"]
    change_crew(database, "bob", types=["t", "u"])
    assert codes(database, job_id) == []


def test_all_slots_are_busy(database: Database) -> None:
    alice = crew(database, slots=1)
    crew(database, "bob", types=["u"])
    busy, first, job_id = put(database), put(database), put(database)
    (held,) = set_off(database, busy, claimer=alice)
    reason = only(database, job_id)
    assert (reason.code, reason.blockers) == ("rank", (busy,))
    assert "number 2 of the ready jobs of group 'default'" in reason.text
    end(database, held.fence)
    assert codes(database, first) == []
    reason = only(database, job_id)
    assert (reason.code, reason.blockers) == ("rank", (first,))
    run(database, first)
    assert codes(database, job_id) == []


def test_what_cannot_start_is_not_before_it(database: Database) -> None:
    crew(database, slots=1, types=["t", "v"])
    limit(database, "api", 0)
    put(database, "nobody's")
    put(database, "v", priority=5)
    put(database, uses={"api": 1})
    put(database, uses={"nothing": 1})
    held = put(database)
    put_hold(database, "type", "v")
    put_hold(database, "job", held)
    assert codes(database, put(database)) == []


def test_what_is_before_it_takes_the_rest(database: Database) -> None:
    crew(database, slots=3, devices=GPUS)
    limit(database, "api", 1)
    first, second = put(database, uses={"api": 1}), put(database, uses={"api": 1})
    assert codes(database, first) == []
    reason = only(database, second)
    assert (reason.code, reason.blockers) == ("rank", (first,))
    gpu, both = put(database, uses={"gpu": 1}), put(database, uses={"gpu": 2})
    assert codes(database, gpu) == []
    assert only(database, both).code == "rank"


def test_other_groups_have_their_turn(database: Database) -> None:
    crew(database, slots=2)
    many = put_all(database, *(JobSpec("t", group="a") for _ in range(5)))
    job_id = put(database, group="b")
    assert codes(database, job_id) == []
    assert codes(database, many[0]) == []
    assert only(database, many[1]).blockers == (many[0], job_id)


def test_priority_comes_first(database: Database) -> None:
    crew(database, slots=1)
    job_id = put(database)
    urgent = put(database, priority=1)
    assert only(database, job_id).blockers == (urgent,)
    assert codes(database, urgent) == []


def test_running(database: Database) -> None:
    alice = crew(database)
    job_id = put(database)
    set_off(database, job_id, claimer=alice)
    reason = only(database, job_id)
    assert (reason.code, "alice" in reason.text, "cancel" in reason.text) == ("running", True, False)
    act(database, "cancel", job_id)
    assert "cancel" in only(database, job_id).text


def test_container(database: Database) -> None:
    crew(database)
    upstream = put(database)
    outer, *members = put_all(database, *box(JobSpec("t", after=[upstream]), JobSpec("t")))
    reason = only(database, outer)
    assert (reason.code, reason.blockers) == ("container", tuple(members))
    assert f"of job {members[0]}, the first: it waits for job {upstream}" in reason.text
    run(database, members[1])
    assert only(database, outer).blockers == (members[0],)


def test_container_without_members(database: Database) -> None:
    reason = only(database, put(database, "box", container=True))
    assert (reason.code, reason.blockers) == ("container", ())
    assert "its first member" in reason.text


def test_ended(database: Database) -> None:
    done, failed = put(database), put(database, max_attempts=1)
    doomed = put(database, after=[failed])
    doomed_too = put(database, after=[doomed])
    cancelled = put(database)
    pointless = put(database, after_failed=[done])
    run(database, done)
    run(database, failed, Outcome(Cause.ERROR, error="ValueError: no"))
    act(database, "cancel", cancelled)
    texts = {}
    for job_id in (done, failed, doomed, doomed_too, cancelled, pointless):
        reason = only(database, job_id)
        assert reason.code == "ended"
        texts[job_id] = reason.text
    assert "is done" in texts[done]
    assert "error: ValueError: no" in texts[failed]
    assert f"`sqljobs retry {failed}`" in texts[failed]
    for job_id in (doomed, doomed_too):
        assert only(database, job_id).job_id == failed
        assert f"job {failed} failed (error: ValueError: no)" in texts[job_id]
        assert f"`sqljobs retry {failed}`" in texts[job_id]
    assert f"`sqljobs retry {cancelled}`" in texts[cancelled]
    assert "not needed" in texts[pointless]
    act(database, "skip", failed)
    assert "skipped" in only(database, failed).text
    assert codes(database, doomed) == ["no_supervisor"]


def test_ended_container(database: Database) -> None:
    outer, member = put_all(database, *box(JobSpec("t")))
    follower = put(database, after=[outer])
    run(database, member, FAILED)
    reason = only(database, outer)
    assert (reason.code, reason.job_id) == ("ended", member)
    assert f"`sqljobs retry {outer}`" in reason.text
    assert f"`sqljobs retry {outer}`" in only(database, follower).text
    act(database, "retry", outer)
    assert codes(database, follower) == ["dependency", "no_supervisor"]


def test_it_reads_a_bounded_number_of_times_and_only_reads(database: Database) -> None:
    crew(database, type_uses={"t": {"api": 1}})
    limit(database, "api", 100)
    put_hold(database, "group", "other")
    numbers = []
    for more in (10, 300):
        ids = put_all(database, *(JobSpec("t", group=f"g{number % 5}") for number in range(more)))
        with sent(database.engine) as statements:
            reasons(database, ids[-1])
        numbers.append(len(statements))
    assert numbers[0] == numbers[1] <= 20
    assert [line for line in statements if not line.startswith(("SELECT", "(SELECT", "WITH", "BEGIN"))] == []


def test_it_flushes_and_ends_nothing_of_the_caller(database: Database) -> None:
    crew(database)
    with Session(database.engine) as session:
        job_id = sqljobs.enqueue(session, "t")
        assert sqljobs.explain(session, job_id) == []
        session.add(sqljobs.Job(id=job_id))  # a flush would be refused
        assert sqljobs.explain(session, job_id) == []
        session.rollback()
        with pytest.raises(sqljobs.UnknownJob):
            sqljobs.explain(session, job_id)
    with pytest.raises(TypeError, match="explain needs a SQLAlchemy Session"):
        sqljobs.explain(database.engine, job_id)  # type: ignore[arg-type]


@contextmanager
def sent(engine: Engine) -> Iterator[list[str]]:
    """What is sent meanwhile."""
    seen: list[str] = []

    def listener(_conn: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(engine, "before_cursor_execute", listener)
    yield seen
    event.remove(engine, "before_cursor_execute", listener)


@pytest.mark.databases("postgresql", "mysql", "mariadb")  # where others may write meanwhile
def test_a_job_that_is_claimed_meanwhile_is_not_in_its_own_way(database: Database) -> None:
    """Before each of its statements in turn."""
    crew(database, slots=2)
    limit(database, "api", 1)
    told: list[list[str]] = []
    for at in range(1, 40):
        job_id = put(database, uses={"api": 1})
        steps: list[str] = []
        leases: list[Lease] = []

        def claim(step: str, job_id: int = job_id, steps: list[str] = steps, leases: list[Lease] = leases) -> None:
            steps.append(step)
            if len(steps) == at:  # noqa: B023 - called in this round only
                with hooked(lambda _: None):
                    leases += set_off(database, job_id)

        with hooked(claim):
            told.append(codes(database, job_id))
        if not leases:
            break
        assert end(database, leases[0].fence) is not None
    assert len(told) > 6
    assert [found for found in told if found not in ([], ["running"])] == []
