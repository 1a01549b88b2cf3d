"""Progress of running jobs in `status` and `wait`: bars on a terminal, text elsewhere."""

import pytest

from sqljobs.schema.job_info import Progress
from sqljobs.schema.progress import write_progress
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.cli.progress import WIDTH, bar
from tests.cli.calling import Cli, on_terminal
from tests.schema.playing import put, set_off


@pytest.fixture
def half_done(queue: Database) -> int:
    (one,) = set_off(queue, put(queue, "resize"))
    progress = Progress(2, 4, "\x1b[31mred")
    assert queue.transaction("progress", lambda tx: write_progress(tx, one.fence, progress))
    return one.job_id


@pytest.mark.parametrize(
    ("progress", "percent", "full"),
    [
        (Progress(0, 3, None), "   0%", 0),
        (Progress(1, 3, None), "  33%", 8),
        (Progress(2.99999, 3, None), "  99%", 24),
        (Progress(3, 3, None), " 100%", 24),
        (Progress(9, 3, None), " 100%", 24),
        (Progress(-1, 3, None), "   0%", 0),
        (Progress(1e300, 1e-300, None), " 100%", 24),
    ],
)
def test_bars(progress: Progress, percent: str, full: int) -> None:
    drawn = bar(progress)
    assert drawn is not None
    assert drawn.plain.endswith(percent)
    assert len(drawn.plain) == WIDTH + 5
    assert len(drawn.plain.rstrip("0123456789% ").rstrip("-─")) == full


def test_without_a_total_there_is_no_bar() -> None:
    assert bar(Progress(1, None, None)) is None
    assert bar(Progress(1, 0, None)) is None


def test_status(cli: Cli, half_done: int) -> None:
    shown = cli("status").out
    assert f"RUNNING  TYPE    PROGRESS  DONE\n      {half_done}  resize  50%       2 of 4, \\x1b[31mred\n" in shown
    found = cli("status", "--json").json["progress"]
    assert found == [{"id": half_done, "type": "resize", "progress": {"done": 2, "total": 4, "note": "\x1b[31mred"}}]


@pytest.mark.usefixtures("half_done")
def test_status_on_a_terminal() -> None:
    shown = on_terminal("status", columns=100)
    assert shown.code == 0
    assert "━" * 12 in shown.out
    assert "50%" in shown.out
    assert "\x1b[31mred" not in shown.out


def test_wait_on_a_terminal(half_done: int) -> None:
    shown = on_terminal("wait", half_done, "--timeout", "1", columns=100)
    assert shown.code == 3
    assert "━" * 12 in shown.out
    assert "1 job has not ended yet" in shown.out


def test_wait_elsewhere(cli: Cli, half_done: int) -> None:
    said = cli("wait", half_done, "--timeout", "0.1")
    assert (said.code, said.out.split()[:3]) == (3, ["ID", "STATE", "TYPE"])
    assert said.err.count("\n") == 1
