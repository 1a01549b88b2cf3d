"""The scan of ready jobs: every lane is found, its first jobs in order, nothing that is to be skipped."""

from decimal import Decimal

import pytest
from sqlalchemy import Engine, func, select, update

import sqljobs
from sqljobs.schema.glance import glance
from sqljobs.schema.ready import Wanted, in_state
from sqljobs.schema.scan import Lane, ReadyJob, Skip, find_lanes, heads, scan
from sqljobs.schema.states import State
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.counting import reads
from tests.schema.playing import put, set_off
from tests.schema.rows import NOW, fill, refresh_statistics

WANTED = Wanted(["t", "u"])
NO_SKIP = Skip()
ODD_NAMES = ["a", "A", "é", "e\u0301", "it's", 'say "so"', "back\\slash", "50%_", ":lanes", "{}", "a b", "\U0001f600"]


def scanned(database: Database, count: int = 4, skip: Skip = NO_SKIP, wanted: Wanted = WANTED) -> list[ReadyJob]:
    return database.read("scan", lambda tx: scan(tx, wanted, count, skip))


def ids(found: list[ReadyJob]) -> list[int]:
    return [job.job_id for job in found]


def lanes(database: Database, skip: Skip = NO_SKIP, wanted: Wanted = WANTED) -> list[Lane]:
    return database.read("lanes", lambda tx: find_lanes(tx, wanted, skip))


def test_nothing_is_ready(database: Database) -> None:
    put(database, "somebody else's")
    put(database, run_after=3600)
    set_off(database, put(database))
    assert lanes(database) == []
    assert scanned(database) == []


def test_lanes_are_told_by_group_type_uses_and_priority(database: Database) -> None:
    expected = [
        ("f", "t", 0, put(database, "t", group="f")),
        ("g", "t", -5, put(database, "t", group="g", priority=-5)),
        ("g", "t", 0, put(database, "t", group="g")),
        ("g", "t", 7, put(database, "t", group="g", priority=7)),
        ("g", "u", 0, put(database, "u", group="g")),
    ]
    put(database, "t", group="f")
    assert [tuple(lane) for lane in lanes(database)] == [(group, kind, "", pr) for group, kind, pr, _ in expected]
    assert ids(scanned(database, 1)) == [job_id for *_, job_id in expected]
    assert [job.lane for job in scanned(database, 1)] == lanes(database)


def test_a_job_is_told_with_all_that_admission_needs(database: Database) -> None:
    parent = put(database, container=True)
    job_id = put(database, group="g", weight=3, priority=2, parent=parent)
    with database.engine.begin() as conn:
        conn.execute(update(jobs).where(jobs.c.id == job_id).values(created_at=NOW))
    (found,) = scanned(database)
    assert found == ReadyJob(job_id, "g", 3, 2, NOW.timestamp(), "t", "", parent, None)


@pytest.mark.parametrize("uses", [{"tokens": Decimal("0.000001"), "it's": Decimal(3)}, {}])
def test_uses_of_a_job_s_own_are_exact(database: Database, uses: dict[str, Decimal]) -> None:
    plain, own = put(database), put(database)
    with database.engine.begin() as conn:
        conn.execute(update(jobs).where(jobs.c.id == own).values(uses=uses, uses_key="k"))
    assert [(job.job_id, job.uses_key, job.own_uses) for job in scanned(database)] == [
        (plain, "", None),
        (own, "k", uses),
    ]


@pytest.mark.parametrize("count", [1, 3, 17, 40])
@pytest.mark.parametrize("groups", [1, 5])
def test_the_oldest_of_each_lane_come_first(database: Database, groups: int, count: int) -> None:
    """Also where there are fewer than asked for; 17 and 5 are on either side of where MariaDB is asked otherwise."""
    with database.engine.begin() as conn:
        fill(conn, State.READY, 20 * groups, groups=groups)
        oldest = conn.execute(select(func.max(jobs.c.id))).scalar_one()
        conn.execute(update(jobs).where(jobs.c.id == oldest).values(created_at=NOW.replace(year=2020)))
        expected: dict[str, list[int]] = {}
        in_order = select(jobs.c.id, jobs.c.group_key).order_by(jobs.c.group_key, jobs.c.created_at, jobs.c.id)
        for job_id, group in conn.execute(in_order):
            expected.setdefault(group, []).append(job_id)
    assert len(expected) == groups
    assert ids(scanned(database, count)) == [job_id for there in expected.values() for job_id in there[:count]]


def test_names_are_compared_by_bytes(database: Database) -> None:
    for count in (1, 2):
        put_in = {name: put(database, "t", group=name) for name in ODD_NAMES}
        assert lanes(database) == sorted(Lane(name, "t", "", 0) for name in ODD_NAMES)
        assert {job.group: job.job_id for job in scanned(database, count)} == put_in
    of_type = {name: put(database, name) for name in ODD_NAMES}
    wanted = Wanted(ODD_NAMES)
    assert {job.type: job.job_id for job in scanned(database, wanted=wanted)} == of_type
    for name, job_id in of_type.items():
        assert ids(scanned(database, wanted=Wanted([name]))) == [job_id]
        assert ids(scanned(database, skip=Skip(types=frozenset(ODD_NAMES) - {name}), wanted=wanted)) == [job_id]


def test_a_thousand_groups(database: Database) -> None:
    with database.engine.begin() as conn:
        fill(conn, State.READY, 3000, groups=1000)
    for count in (1, 2, 20):
        found = scanned(database, count)
        assert len(found) == 1000 * min(count, 3)
        assert [job.group for job in found] == sorted(f"g{n % 1000}" for n in range(len(found)))


def test_only_what_is_wanted(database: Database) -> None:
    t, u = put(database, "t", group="f"), put(database, "u", group="g")
    put(database, "v", group="f")
    assert ids(scanned(database)) == [t, u]
    assert ids(scanned(database, wanted=Wanted(["u", "w"]))) == [u]
    assert ids(scanned(database, wanted=Wanted(["t", "u"], ["g", "h"]))) == [u]
    assert ids(scanned(database, wanted=Wanted(["t"], ["g"]))) == []


def test_each_kind_of_skip(database: Database) -> None:
    outer, inner = put(database, container=True), put(database, container=True)
    alone = put(database, "t", group="f")
    first, second = put(database, "t", group="g", parent=outer), put(database, "t", group="g", parent=outer)
    other = put(database, "t", group="g", parent=inner)
    of_u = put(database, "u", group="g")
    everything = [alone, first, second, other, of_u]
    cases = {
        NO_SKIP: everything,
        Skip(types=frozenset({"t"})): [of_u],
        Skip(groups=frozenset({"g"})): [alone],
        Skip(jobs=frozenset({first, of_u})): [alone, second, other],
        Skip(containers=frozenset({outer, 10**9})): [alone, other, of_u],
        Skip(lanes=frozenset({Lane("g", "t", "", 0)})): [alone, of_u],
        Skip(types=frozenset({"u"}), jobs=frozenset({other}), containers=frozenset({outer})): [alone],
    }
    for skip, expected in cases.items():
        for count in (3, 20):
            assert sorted(ids(scanned(database, count, skip))) == expected, skip
    # Behind what is held the next ones are found.
    assert ids(scanned(database, 1, Skip(jobs=frozenset({first})))) == [alone, second, of_u]
    assert ids(scanned(database, 1, Skip(containers=frozenset({outer})))) == [alone, other, of_u]


def test_many_held_jobs_fit_in_one_statement(database: Database) -> None:
    """More than a database takes parameters, counted once for each lane."""
    job_id = put(database)
    for number in range(60):
        put(database, group=f"g{number}")
    held = Skip(jobs=frozenset(range(job_id, job_id + 1000)))
    assert scanned(database, 2, held) == scanned(database, 70, held) == []


def test_heads_of_lanes_that_are_not_there(database: Database) -> None:
    there, gone = put(database, group="g"), Lane("g", "t", "", 1)
    mine = Lane("g", "t", "", 0)

    def of(*asked: Lane, count: int = 1) -> list[int]:
        return ids(database.read("heads", lambda tx: heads(tx, asked, count)))

    assert of() == of(gone) == of(mine, count=0) == []
    assert of(gone, mine) == of(mine, gone, count=9) == [there]


def test_a_long_lane_costs_no_more_than_a_short_one(database: Database, engine: Engine) -> None:
    """And hides nothing: beside it there are lanes whose jobs are younger. Nor does it weigh on a glance."""
    wanted = Wanted(["t"])
    read: dict[str, list[int]] = {}
    for rows in (2_000, 18_000):
        with engine.begin() as conn:
            fill(conn, State.READY, rows)
        put_in_groups(database, 20)
        with engine.begin() as conn:
            refresh_statistics(conn)
        found = database.read("lanes", lambda tx: find_lanes(tx, wanted))
        assert [lane.group for lane in found] == sorted(["g", *(f"h{n}" for n in range(20))])
        all_of_them = select(func.count()).where(in_state(State.READY), jobs.c.type == "t")
        read.setdefault("count", []).append(reads(database, lambda tx: tx.execute("all", all_of_them).all()))  # noqa: B023
        read.setdefault("glance", []).append(reads(database, lambda tx: glance(tx, Wanted(["rare"]))))
        read.setdefault("lanes", []).append(reads(database, lambda tx: find_lanes(tx, wanted)))
        read.setdefault("heads", []).append(reads(database, lambda tx: heads(tx, found, 2)))  # noqa: B023
        read.setdefault("many heads", []).append(reads(database, lambda tx: heads(tx, found, 30)))  # noqa: B023
    few, many = read.pop("count")
    assert many > 5 * few, "what is counted grows with what is read"
    for look, (few, many) in read.items():
        assert few > 0, read
        assert many < 2 * few + 200, (look, read)


def put_in_groups(database: Database, groups: int) -> None:
    with database.engine.begin() as conn:
        sqljobs.enqueue_many(conn, [sqljobs.JobSpec("t", group=f"h{n}") for n in range(groups)])
