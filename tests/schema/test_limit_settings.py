"""Limits and weights as operators set them: checked, replaced, deleted, listed with what is left of them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema.control_tables import job_groups
from sqljobs.schema.group_settings import list_groups, read_weights
from sqljobs.schema.limit_settings import create_limits, delete_limit, stored_limits
from sqljobs.schema.limit_tables import GATE, job_charges, job_counters, job_limits
from sqljobs.schema.limits_list import list_limits
from sqljobs.schema.steps import step
from sqljobs.schema.transactions import Database
from sqljobs.schema.windows import window_at
from tests.schema.actors import Stage
from tests.schema.locks import waits_for_lock
from tests.schema.playing import put, set_off
from tests.waiting import wait_until

Row = tuple[Any, ...]


def set_limit(database: Database, name: str, **options: Any) -> None:
    with database.engine.begin() as conn:
        sqljobs.set_limit(conn, name, **options)


def rows(database: Database) -> list[Row]:
    return [
        (row.name, row.group, row.kind, Decimal(row.amount) / 10**6, row.per, row.each)
        for row in database.read("limits", stored_limits)
    ]


def lines(database: Database) -> list[dict[str, Any]]:
    return database.read("list", list_limits)


def charge(database: Database, name: str, job_id: int, amount: int, **values: Any) -> None:
    """What a claim writes; `amount` in millionths."""
    row = {
        "name": name,
        "group_key": "",
        "job_id": job_id,
        "attempt": 1,
        "kind": "resource",
        "period": "",
        "counted_at": datetime.now(UTC),
        "amount": amount,
        "estimate": True,
    }
    with database.engine.begin() as conn:
        conn.execute(insert(job_charges).values({**row, **values}))


def test_each_kind(database: Database) -> None:
    set_limit(database, "gpu", resource=2)
    set_limit(database, "api", rate="50", per="10s")
    set_limit(database, "usd", budget=0.1, per="month")
    set_limit(database, "eur", budget=Decimal("999999999999.999999"))
    set_limit(database, "shut", budget=0, per=timedelta(days=1), each="group")
    assert rows(database) == [
        ("api", "", "rate", 50, "10", False),
        ("eur", "", "budget", Decimal("999999999999.999999"), None, False),
        ("gpu", "", "resource", 2, None, False),
        ("shut", "", "budget", 0, "86400", True),
        ("usd", "", "budget", Decimal("0.1"), "month", False),
    ]


def test_a_limit_is_replaced(database: Database) -> None:
    set_limit(database, "usd", budget=5, per="day", each="group")
    set_limit(database, "usd", budget="2.5")
    assert rows(database) == [("usd", "", "budget", Decimal("2.5"), None, False)]
    for wrong in ({"resource": 1}, {"rate": 1, "per": "1s"}, {"rate": 1, "group": "g", "each": "group"}):
        with pytest.raises(sqljobs.InvalidJob, match="limit 'usd' is a budget limit: delete it first"):
            set_limit(database, "usd", **wrong)
    assert rows(database) == [("usd", "", "budget", Decimal("2.5"), None, False)]


def test_a_groups_own_amount(database: Database) -> None:
    with pytest.raises(sqljobs.InvalidJob, match="limit 'api' has no counter for each group: give each='group'"):
        set_limit(database, "api", rate=1, per="1s", group="acme")
    set_limit(database, "api", rate=1, per="1s")
    with pytest.raises(sqljobs.InvalidJob, match="counts all groups together: set it with each='group' first"):
        set_limit(database, "api", rate=1, group="acme", each="group")
    set_limit(database, "api", rate=1, per="1s", each="group")
    set_limit(database, "api", rate=7, group="acme")
    set_limit(database, "api", rate=8, per="1000ms", each="group", group="beta")
    with pytest.raises(sqljobs.InvalidJob, match="the window of limit 'api' is 1s for every group"):
        set_limit(database, "api", rate=8, per="2s", group="beta")
    assert rows(database) == [
        ("api", "", "rate", 1, "1", True),
        ("api", "acme", "rate", 7, "1", True),
        ("api", "beta", "rate", 8, "1", True),
    ]
    set_limit(database, "api", rate=3, per="5s", each="group")
    assert [(row[3], row[4]) for row in rows(database)] == [(3, "5"), (7, "5"), (8, "5")]
    with pytest.raises(sqljobs.InvalidJob, match="group 'acme' has an amount of limit 'api' of its own"):
        set_limit(database, "api", rate=3, per="5s")


def test_a_groups_amount_alone(database: Database) -> None:
    with pytest.raises(sqljobs.InvalidJob, match="limit 'api' is a rate, which needs per"):
        set_limit(database, "api", rate=1, each="group", group="acme")
    set_limit(database, "api", rate=1, per="1s", each="group", group="acme")
    set_limit(database, "api", rate=2, per="2s", group="acme")
    set_limit(database, "api", rate=3, group="beta")
    assert rows(database) == [("api", "acme", "rate", 2, "2", True), ("api", "beta", "rate", 3, "2", True)]
    assert [(line["group"], line["left"]) for line in lines(database)] == [("acme", 2), ("beta", 3)]


@pytest.mark.databases("sqlite")  # refused before any statement
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "limit 'x' needs one of resource, rate, budget: none is given"),
        ({"resource": 1, "budget": 2}, "needs one of resource, rate, budget: not resource and budget"),
        ({"rate": 1}, "limit 'x' is a rate, which needs per: a duration such as 10s"),
        ({"rate": 1, "per": "day"}, "per must be a duration such as 10s or 1h, not 'day'"),
        ({"rate": 1, "per": 0}, "per must be from 1ms to 3650d, not 0"),
        ({"budget": 1, "per": "week"}, "per must be a duration such as 10s or 1h, or day or month"),
        ({"resource": 1, "per": "10s"}, "leave per out"),
        ({"resource": -1}, "resource must be a number from 0 to"),
        ({"resource": True}, "resource must be a number"),
        ({"budget": "0.0000001"}, "budget must be"),
        ({"budget": 10**13}, "budget must be a number from 0 to 1000000000000"),
        ({"budget": float("nan")}, "budget must be a number"),
        ({"resource": 1, "each": "job"}, "each must be 'group', or left out, not 'job'"),
        ({"resource": 1, "each": "group", "group": ""}, "group '' is empty"),
    ],
)
def test_refused_at_the_door(database: Database, options: Any, words: str) -> None:
    with pytest.raises(sqljobs.InvalidJob) as caught:
        set_limit(database, "x", **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert rows(database) == []


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("name", ["", " x", "x" * 201, 7, None])
def test_names_are_checked(database: Database, name: Any) -> None:
    with pytest.raises(sqljobs.InvalidJob, match="limit"):
        set_limit(database, name, resource=1)
    with database.engine.begin() as conn, pytest.raises(sqljobs.InvalidJob, match="group"):
        sqljobs.set_group(conn, name, weight=1)


def test_a_caller_that_rolls_back(database: Database) -> None:
    with Session(database.engine) as session:
        sqljobs.set_limit(session, "x", resource=1)
        session.rollback()
    assert rows(database) == []


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("kind", ["resource", "budget"])
def test_two_at_once(database: Database, stage: Stage, kind: str) -> None:
    """The second waits for the first, and replaces it, or is refused where that would change the kind."""

    def setting(what: str, amount: int) -> Callable[[], None]:
        def act() -> None:
            with database.engine.begin() as conn:
                sqljobs.set_limit(conn, "x", **{what: amount})  # type: ignore[arg-type]
                step(f"set to {amount}")

        return act

    one, two = stage.actor(setting("resource", 1)), stage.actor(setting(kind, 2))
    one.until("set to 1")
    two.go()
    wait_until(lambda: waits_for_lock(database), what="the second to wait for the first")
    one.finish()
    if kind == "resource":
        two.finish()
        assert rows(database) == [("x", "", "resource", 2, None, False)]
    else:
        with pytest.raises(sqljobs.InvalidJob, match="limit 'x' is a resource limit"):
            two.finish()
        assert rows(database) == [("x", "", "resource", 1, None, False)]


def test_create_only_what_is_not_there(database: Database) -> None:
    set_limit(database, "old", budget=1)
    wanted: dict[str, dict[str, Any]] = {
        "old": {"budget": 9, "per": "day"},
        "new": {"rate": 5, "per": "10s", "each": "group"},
        "one": {"resource": 1, "each": "group", "group": "acme"},
    }
    for expected in (["new", "one"], []):
        made = database.transaction("create", lambda tx: create_limits(tx, wanted))
        assert [limit.name for limit in made] == expected
    assert [row[:4] for row in rows(database)] == [
        ("new", "", "rate", 5),
        ("old", "", "budget", 1),
        ("one", "acme", "resource", 1),
    ]
    with pytest.raises(sqljobs.InvalidJob, match="limit 'old' is a budget limit"):
        database.transaction(
            "create", lambda tx: create_limits(tx, {"old": {"resource": 1, "each": "group", "group": "g"}})
        )


def test_delete(database: Database) -> None:
    now = datetime.now(UTC)
    period = window_at(None, now).key
    for name in ("a", "b"):
        set_limit(database, name, budget=1, each="group")
        set_limit(database, name, budget=2, group="g")
        charge(database, name, 1, 5, group_key="g", kind="budget")
        with database.engine.begin() as conn:
            for key, used in ((GATE, 0), (period, 5)):
                conn.execute(insert(job_counters).values(name=name, group_key="g", period=key, used=used))

    def delete(*named: str) -> list[str]:
        gone = database.transaction("delete", lambda tx: delete_limit(tx, *named))
        return [f"{row.name}/{row.group}" for row in gone]

    def left() -> list[int]:
        with database.engine.connect() as conn:
            return [len(conn.execute(select(table)).all()) for table in (job_limits, job_counters, job_charges)]

    assert delete("a", "nobody") == []
    assert delete("c") == []
    assert left() == [4, 4, 2]
    assert delete("a", "g") == ["a/g"]  # what the group has had still counts
    assert left() == [3, 4, 2]
    assert delete("b") == ["b/", "b/g"]
    assert left() == [1, 2, 1]
    assert [(line["name"], line["group"], line["used"]) for line in lines(database)] == [
        ("a", None, None),
        ("a", "g", 0.000005),
    ]
    set_limit(database, "b", resource=1)  # of another kind now


def test_list_of_nothing(database: Database) -> None:
    assert lines(database) == []


def test_list_resource(database: Database) -> None:
    set_limit(database, "gpu", resource="2.5")
    ids = [put(database) for _ in range(3)]
    set_off(database, *ids[:2])
    for job_id in ids[:2]:
        charge(database, "gpu", job_id, 1_000_000)
    charge(database, "gpu", ids[0], 250_000)
    charge(database, "gpu", ids[2], 1_000_000)  # not in flight
    charge(database, "gpu", ids[1], 1_000_000, attempt=7)  # not this attempt
    assert lines(database) == [
        {
            "name": "gpu",
            "kind": "resource",
            "group": None,
            "amount": 2.5,
            "per": None,
            "used": 2.25,
            "left": 0.25,
            "holders": ids[:2],
            "each": None,
        }
    ]


def test_list_rate(database: Database) -> None:
    now = datetime.now(UTC)
    set_limit(database, "api", rate=3, per="1h")
    charge(database, "api", 1, 1_000_000, kind="rate", counted_at=now - timedelta(hours=2))
    charge(database, "api", 2, 2_000_000, kind="rate", counted_at=now - timedelta(minutes=2))
    (line,) = lines(database)
    assert (line["per"], line["used"], line["left"], line["holders"]) == (3600, 2, 1, [])


def test_list_budget(database: Database, engine: Engine) -> None:
    now = datetime.now(UTC)
    set_limit(database, "usd", budget=3, per="1000d")
    with engine.begin() as conn:
        for period, used in ((window_at("86400000", now).key, 3_500_000), ("0", 1_000_000), (GATE, 0)):
            conn.execute(insert(job_counters).values(name="usd", group_key="", period=period, used=used))
    (line,) = lines(database)
    assert (line["per"], line["used"], line["left"]) == (86_400_000, 3.5, -0.5)


@pytest.mark.parametrize("kind", ["resource", "rate", "budget"])
def test_list_of_each_group(database: Database, engine: Engine, kind: str) -> None:
    per = {"rate": {"per": "1h"}}.get(kind, {})
    set_limit(database, "x", **{kind: 3}, **per, each="group")
    set_limit(database, "x", **{kind: 5}, group="own")
    job_id = put(database)
    set_off(database, job_id)
    charge(database, "x", job_id, 1_000_000, group_key="has", kind=kind)
    if kind == "budget":
        with engine.begin() as conn:
            for group, period, used in (("has", "all", 1_000_000), ("had", "0", 7), ("has", GATE, 0), ("no", GATE, 0)):
                conn.execute(insert(job_counters).values(name="x", group_key=group, period=period, used=used))
    else:
        charge(database, "x", 999, 9, group_key="had", kind=kind, counted_at=datetime(2020, 1, 1, tzinfo=UTC))
    found = lines(database)
    names = ("group", "amount", "used", "left", "holders", "each")
    assert [tuple(line[name] for name in names) for line in found] == [
        (None, 3, None, None, [], "group"),
        ("has", 3, 1, 2, [job_id], "group"),
        ("own", 5, 0, 5, [], "group"),
    ]


def test_at_most_a_hundred_holders(database: Database) -> None:
    set_limit(database, "gpu", resource=200)
    ids = [put(database) for _ in range(102)]
    set_off(database, *ids)
    for job_id in ids:
        charge(database, "gpu", job_id, 1_000_000)
    (line,) = lines(database)
    assert (line["used"], line["holders"]) == (102, ids[:100])


def test_groups(database: Database) -> None:
    for name, weight in (("b", 2), ("a", 1), ("A", 5), ("b", 3)):
        with database.engine.begin() as conn:
            sqljobs.set_group(conn, name, weight=weight)
    assert database.read("groups", list_groups) == [
        {"group": "A", "weight": 5},
        {"group": "a", "weight": 1},
        {"group": "b", "weight": 3},
    ]
    assert database.read("weights", lambda tx: read_weights(tx, ["a", "b", "c"])) == {"a": 1, "b": 3}
    assert database.read("weights", lambda tx: read_weights(tx, [])) == {}
    many = [f"g{number}" for number in range(1200)]
    assert database.read("weights", lambda tx: read_weights(tx, [*many, "A"])) == {"A": 5}
    with database.engine.connect() as conn:
        assert len(conn.execute(select(job_groups)).all()) == 3


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("weight", [0, -1, 1.5, "2", True, None, 10**10])
def test_weights_are_checked(database: Database, weight: Any) -> None:
    with database.engine.begin() as conn, pytest.raises(sqljobs.InvalidJob, match="weight must be a whole number"):
        sqljobs.set_group(conn, "g", weight=weight)
