"""The commands on every database, without a supervisor."""

import pytest

import sqljobs
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.transactions import Database
from tests.cli.calling import Cli
from tests.schema.playing import run

FAILED = Outcome(Cause.ERROR, error="Traceback ...\nValueError: no")


def test_the_whole_round(cli: Cli, db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "run `sqljobs init`" in cli.refused(4, "list", "--url", db_url)
    assert cli("init", "--check", "--url", db_url).code == 1
    monkeypatch.setenv("SQLJOBS_URL", db_url)
    assert cli("init").code == 0
    assert cli("init", "--check").code == 0
    first = cli("enqueue", "t", "--args", '{"x": "é☃"}', "--max-attempts", 1, "--key", "k", "--json").json["id"]
    assert cli("enqueue", "t", "--key", "k", "--json").json == {"id": first, "created": False}
    assert "is taken by job" in cli.refused(1, "enqueue", "t", "--key", "k", "--on-conflict", "raise")
    assert "there is no job 999" in cli.refused(2, "enqueue", "t", "--after", 999)
    text = f'{{"ref": "a", "type": "u", "after": [{first}], "run_after": "1h"}}\n{{"type": "v", "after": ["a"]}}'
    a, b = (one["id"] for one in cli("enqueue", "--batch", "-", "--json", stdin=text).json)
    listed = cli("list", "--json").json
    assert [(job["id"], job["state"]) for job in listed] == [(b, "blocked"), (a, "blocked"), (first, "ready")]
    assert [job["reason"] and job["reason"]["job_id"] for job in listed] == [a, first, None]
    assert [job["id"] for job in cli("list", "--since", "1h", "--state", "blocked", "--json").json] == [b, a]
    assert cli("list", "--since", "2099-01-01T00:00:00Z", "--json").json == []
    assert len(cli("list", "--since", "1000000d", "--json").json) == 3
    engine = sqljobs.create_engine(db_url)
    run(Database.of(engine), first, FAILED)
    engine.dispose()
    assert [job["id"] for job in cli("list", "--cause", "error", "--json").json] == [first]
    waited = cli("wait", first, a, b, "--json")
    assert (waited.code, [job["state"] for job in waited.json]) == (1, ["failed", "cancelled", "cancelled"])
    assert cli("retry", first, "--dry-run", "--json").json == [first, a, b]
    assert cli("retry", first, "--json").json == [first, a, b]
    assert cli("wait", first, "--timeout", "10ms").code == 3
    assert cli("cancel", "--type", "t", "--json").json == [first]
    assert cli("cancel", "--since", "1h", "--json").json == []
    status = cli("status", "--json").json
    assert status["database"] in ("sqlite", "postgresql", "mysql", "mariadb")
    assert status["states"]["cancelled"] == 3
    assert cli("limit", "set", "usd", "--budget", "0.000001", "--per", "month", "--each", "group").code == 0
    assert cli("limit", "set", "usd", "--budget", 2, "--group", "g").code == 0
    assert [line["left"] for line in cli("limit", "list", "--json").json] == [None, 2]
    assert cli("limit", "delete", "usd").code == 0
    assert cli("group", "set", "g", "--weight", 3).code == 0
    assert cli("group", "list", "--json").json == [{"group": "g", "weight": 3}]
    assert cli("hold", "job", first, "--until", "1h", "--reason", "é☃").code == 0
    assert [hold["reason"] for hold in cli("status", "--json").json["holds"]] == ["é☃"]
    assert len(cli("release", "job", first, "--json").json) == 1
    for command in (["list"], ["status"], ["show", first]):
        assert cli(*command).code == 0


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_schema_of_its_own(cli: Cli, db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLJOBS_URL", db_url)
    name = "sqljobs_cli_schema"
    try:
        assert f"schema {name}" in cli("init", "--schema", name).out
        assert cli("enqueue", "t", "--schema", name).code == 0
        assert cli("list", "--schema", name, "--json").json[0]["type"] == "t"
        assert cli("list").code == 4
    finally:
        engine = sqljobs.create_engine(db_url)
        cascade = " CASCADE" if engine.dialect.name == "postgresql" else ""
        with engine.begin() as conn:
            conn.exec_driver_sql(f"DROP SCHEMA {name}{cascade}")
        engine.dispose()


@pytest.mark.databases("postgresql", "mariadb", "mysql")
def test_a_wrong_password(cli: Cli, db_url: str) -> None:
    url = sqljobs.create_engine(db_url).url.set(username="nobody_here", password="hushhush")
    line = cli.refused(4, "list", "--url", url.render_as_string(hide_password=False))
    assert "hushhush" not in line
