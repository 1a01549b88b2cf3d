"""Every option and every rule for values, as they come back from each database."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select

import sqljobs
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from sqljobs.worker_runtime import registry
from tests.schema.playing import count, put, row

MIB = 1024 * 1024


@pytest.fixture
def rendering(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A handler with options, known in this process for one test."""
    monkeypatch.setattr(registry, "_by_module", {})
    monkeypatch.setattr(registry, "_latest", {})

    @sqljobs.handler("render", group="reports", weight=7, priority=-3, max_attempts=9, timeout="2h")
    def render(order: int, at: datetime | None = None) -> None: ...

    return render


def test_what_a_plain_job_gets(database: Database) -> None:
    job = row(database, put(database))
    assert (job.type, job.args, job.state, job.group_key, job.weight, job.priority) == (
        "t",
        None,
        "ready",
        "default",
        1,
        0,
    )
    assert (job.key, job.key_for, job.attempt, job.max_attempts, job.timeout) == (None, "open", 0, 5, 86400.0)
    assert (job.given, job.reason, job.result, job.unmet_deps, job.in_flight) == (None, None, None, 0, False)
    assert (job.run_after, job.started_at, job.ended_at, job.lease_owner) == (None, None, None, None)
    assert job.created_at == job.updated_at
    assert job.created_at.tzinfo is UTC


def test_every_option_is_stored(database: Database) -> None:
    upstream = put(database)
    options = {"group": "g", "weight": 3, "priority": -1000, "key": "k", "key_for": "ever", "max_attempts": 2}
    job = row(database, put(database, **options, timeout="1.5m", after=[upstream], run_after="1h"))
    assert (job.group_key, job.weight, job.priority, job.key, job.key_for) == ("g", 3, -1000, "k", "ever")
    assert (job.max_attempts, job.first_max_attempts, job.timeout) == (2, 2, 90.0)
    assert job.given == ["max_attempts", "timeout"]
    assert (job.state, job.run_after - job.created_at) == ("blocked", timedelta(hours=1))


def test_options_of_the_handler_apply_where_it_is_known(database: Database, rendering: Any) -> None:
    job = row(database, put(database, rendering.spec(order=1)))
    assert (job.type, job.group_key, job.weight, job.priority, job.max_attempts) == ("render", "reports", 7, -3, 9)
    assert (job.timeout, job.given, job.args) == (7200.0, None, {"order": 1})
    job = row(database, put(database, rendering.spec(order=1).options(group="g", weight=1, max_attempts=1)))
    assert (job.group_key, job.weight, job.priority, job.max_attempts) == ("g", 1, -3, 1)
    assert job.given == ["max_attempts"]


@pytest.mark.databases("sqlite")  # refused before any statement
@pytest.mark.usefixtures("rendering")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "argument 'order' is missing; it must be an integer"),
        ({"order": 1, "oder": 2}, "no argument 'oder'.*did you mean 'order'"),
        ({"order": "one"}, "args.order must be an integer"),
        ({"order": 1, "at": "yesterday"}, "args.at"),
    ],
)
def test_args_that_the_known_handler_does_not_take(database: Database, args: dict[str, Any], words: str) -> None:
    with pytest.raises(sqljobs.InvalidJob, match=words) as raised:
        put(database, "render", args)
    assert "\n" not in str(raised.value)
    assert count(database) == 0


@pytest.mark.parametrize(
    "args",
    [
        None,
        {},
        {"n": 2**64, "m": -(2**200), "z": 0, "a": 1},
        {"text": "𝕊 🐘 \U0010ffff é e\u0301 \t\n\x7f \\ ' \" % :name ?"},
        {"k 🐘": [1, [2.5, None, True, {"deep": []}]], "": ""},
        {"float": 0.1, "tiny": 5e-324, "huge": 1.7976931348623157e308, "minus": -0.0},
    ],
    ids=["none", "empty", "big", "text", "nested", "floats"],
)
def test_args_come_back_as_they_were(database: Database, args: dict[str, Any] | None) -> None:
    job_id = put(database, "t", args)
    stored = row(database, job_id).args
    assert stored == args
    assert repr(stored) == repr(args)  # key order, -0.0, int against float
    with database.engine.connect() as conn:
        is_null = conn.execute(select(jobs.c.args.is_(None)).where(jobs.c.id == job_id)).scalar_one()
    assert bool(is_null) is (args is None)


@pytest.mark.parametrize("character", ["x", "\\", "'", "🐘"], ids=["ascii", "backslash", "quote", "four bytes"])
def test_args_of_four_mebibytes(database: Database, character: str) -> None:
    overhead = len('{"a":""}')
    each = len(character.encode()) * (2 if character == "\\" else 1)
    text = character * ((4 * MIB - overhead) // each)
    job_id = put(database, "t", {"a": text})
    assert row(database, job_id).args["a"] == text
    with pytest.raises(sqljobs.InvalidJob, match=r"args is .* bytes of JSON and at most 4194304 are kept"):
        put(database, "t", {"a": text + character})
    assert count(database) == 1


@pytest.mark.databases("sqlite")  # refused before any statement
@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"a": ["x\0y"]}, r"args.a\[0\] has a NUL character"),
        ({"a": "\ud800"}, "args.a has a lone surrogate"),
        ({"a\0": 1}, "args has a key with a NUL character"),
        ({"a": float("nan")}, "args.a is nan"),
        ({"a": {"b": float("-inf")}}, "args.a.b is -inf"),
        ({1: 2}, "args has the key 1; keys must be text"),
        ({"a": object()}, "args.a is an object, which JSON cannot hold"),
        ({"a": b"x"}, "args.a is a bytes, which JSON cannot hold"),
        ({"a": datetime(2026, 1, 1)}, "args.a .* has no UTC offset"),
        ([1], "args of 't' must be a mapping"),
        ("text", "args of 't' must be a mapping"),
    ],
)
def test_args_that_no_database_holds(database: Database, args: Any, words: str) -> None:
    with pytest.raises(sqljobs.InvalidJob, match=words) as raised:
        put(database, "t", args)
    assert "\n" not in str(raised.value)
    assert count(database) == 0


@pytest.mark.databases("sqlite")  # refused before any statement
@pytest.mark.parametrize(
    "options",
    [
        {"weight": 0}, {"weight": -1}, {"weight": True}, {"weight": "2"}, {"weight": 1.0}, {"weight": 10**9 + 1},
        {"max_attempts": 0}, {"max_attempts": 10**9 + 1}, {"max_attempts": 2.5},
        {"priority": -1001}, {"priority": 1001}, {"priority": "high"},
        {"timeout": -1}, {"timeout": "soon"}, {"timeout": float("nan")}, {"timeout": "4000d"}, {"timeout": "0.1ms"},
        {"run_after": datetime(2026, 1, 1)}, {"run_after": "2026-01-01T00:00"}, {"run_after": "then"},
        {"run_after": -1},
        {"run_after": datetime(1969, 1, 1, tzinfo=UTC)}, {"run_after": datetime(9999, 12, 31, tzinfo=UTC)},
        {"key": "k", "on_conflict": "ignore"}, {"key": "k", "key_for": "never"}, {"on_conflict": 1},
        {"after": 7}, {"after": "7"}, {"after": ["7"]}, {"after": [True]}, {"after": [0]}, {"after": [2**63]},
        {"after": {7: 8}}, {"after": [None]},
    ],
    ids=str,
)  # fmt: skip
def test_bad_values_are_refused(database: Database, options: dict[str, Any]) -> None:
    with pytest.raises(sqljobs.InvalidJob, match=next(reversed(options))) as raised:
        put(database, **options)
    assert "\n" not in str(raised.value)
    assert count(database) == 0


def test_unknown_options_name_the_nearest(database: Database) -> None:
    with pytest.raises(TypeError, match=r"unknown option 'prioriti' \(did you mean 'priority'\?\)"):
        put(database, prioriti=1)
    with pytest.raises(sqljobs.InvalidJob, match="a spec has its arguments already"):
        put(database, sqljobs.JobSpec("t"), {"a": 1})
    with pytest.raises(sqljobs.InvalidJob, match="type must be text"):
        put(database, 7)
    assert count(database) == 0


@pytest.mark.parametrize(
    ("given", "state"),
    [
        (0, "ready"), ("0s", "ready"), (timedelta(0), "ready"), (3600, "scheduled"), ("1.5h", "scheduled"),
        (datetime(2020, 1, 1, tzinfo=UTC), "ready"), ("2020-01-01T00:00:00Z", "ready"),
        (datetime(2999, 1, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45))), "scheduled"),
        ("9999-12-30T23:59:59.999999+00:00", "scheduled"), (datetime(1970, 1, 1, tzinfo=UTC), "ready"),
    ],
    ids=str,
)  # fmt: skip
def test_run_after(database: Database, given: Any, state: str) -> None:
    job = row(database, put(database, run_after=given))
    assert job.state == state
    if isinstance(given, datetime):
        assert job.run_after == given  # to the microsecond
        assert job.run_after.utcoffset() == timedelta(0)


def test_ids_are_never_given_twice(engine: Engine, database: Database) -> None:
    last = put(database)
    with engine.begin() as conn:
        conn.execute(jobs.delete().where(jobs.c.id == last))
    assert put(database) > last


def test_naive_times_are_refused_by_the_column(engine: Engine, database: Database) -> None:
    last = row(database, put(database))
    values = {**last._mapping, "id": None, "run_after": datetime(2026, 1, 1)}
    del values["id"]
    with engine.begin() as conn, pytest.raises(Exception, match="without a UTC offset"):
        conn.execute(insert(jobs), values)
