"""The supervisor's log lines: JSON with the fields of the contract, and no harm from a stderr that is gone."""

import io
import json
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from sqljobs.supervisor.logs import supervisor_log


class Broken(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


def test_a_line_is_json_with_the_fields_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    log = supervisor_log("box-1")
    log.info("attempt ended", job_id=7, attempt=2)
    log.warning("two\nlines \x00 ü", thing=object)
    out, err = capsys.readouterr()
    first, second = (json.loads(line) for line in err.splitlines())
    assert out == ""
    moment = datetime.fromisoformat(first.pop("timestamp"))
    assert moment.utcoffset() == timedelta(0)
    assert first == {"event": "attempt ended", "level": "info", "supervisor": "box-1", "job_id": 7, "attempt": 2}
    assert (second["event"], second["level"]) == ("two\nlines \x00 ü", "warning")


def test_a_traceback_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    log = supervisor_log("box-1")
    try:
        raise ValueError("wrong")
    except ValueError:
        log.exception("a fault of ours")
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found["level"] == "error"
    assert found["exception"].endswith("ValueError: wrong")


def test_a_terminal_gets_lines_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    supervisor_log("box-1").info("supervisor started", slots=4)
    text = terminal.getvalue()
    assert "supervisor started" in text
    assert "box-1" in text
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


@pytest.mark.parametrize("make", [closed, Broken, lambda: None], ids=["closed", "broken", "none"])
def test_a_stderr_that_is_gone_harms_nothing(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log, healthy = supervisor_log("box-1"), io.StringIO()
    monkeypatch.setattr(sys, "stderr", make())
    log.info("not heard")
    monkeypatch.setattr(sys, "stderr", healthy)
    log.info("heard again")
    assert [json.loads(line)["event"] for line in healthy.getvalue().splitlines()] == ["heard again"]


def test_a_logger_can_be_made_without_any_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    log = supervisor_log("box-1")
    log.error("not heard")
    monkeypatch.setattr(sys, "stderr", healthy := io.StringIO())
    log.error("heard")
    assert json.loads(healthy.getvalue())["event"] == "heard"


def test_the_host_programs_structlog_stays_as_it_is() -> None:
    before = structlog.get_config()
    supervisor_log("box-1")
    assert structlog.get_config() == before
