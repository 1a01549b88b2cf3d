"""Units of devices: one job on each at a time, whatever jobs and supervisors leave behind. Handlers lock the units."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sqljobs
from sqljobs.schema.outcomes import Backoff
from sqljobs.schema.supervisors import read_supervisors
from sqljobs.schema.transactions import Database
from sqljobs.supervisor import sweeping, swept
from sqljobs.supervisor.logs import supervisor_log
from sqljobs.supervisor.sweeping import Sweeper
from sqljobs.supervisor.takeover import Takeover
from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.queue.test_strays import STRAYING, noted
from tests.queue.test_takeover import LONG_LEASES
from tests.waiting import wait_until

DEVICES = Path(__file__).with_name("device_handlers.py")
VARIABLE = "TEST_GPUS"  # not imported from there: that would register its job types in this process
TWO = ["--device", "gpu=a,b", "--device-env", f"gpu={VARIABLE}"]
ONE = ["--device", "gpu=a"]


def lines(side: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in side.read_text().splitlines()] if side.exists() else []


def words(side: Path) -> list[str]:
    return [line["word"] for line in lines(side)]


def most_at_once(side: Path) -> int:
    at_once = most = 0
    for word in words(side):
        at_once += {"begin": 1, "end": -1}[word]
        most = max(most, at_once)
    return most


@usually_on("sqlite", "postgresql", "mariadb")
def test_no_two_jobs_on_one_unit(queue: Queue, supervisors: Supervisors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "inherited")
    args = {"side": str(queue.side)}
    count = full_size(12, 200)
    single = queue.enqueue_many([sqljobs.JobSpec("on_one", args) for _ in range(count)])
    supervisors.run_until_idle(*TWO, handlers=DEVICES)
    assert "clash" not in words(queue.side)
    assert most_at_once(queue.side) == 2
    infos = [queue.job(job_id) for job_id in single]
    assert {info.state for info in infos} == {"done"}
    for info in infos:
        (unit,) = info.result["units"]
        assert info.result["variable"] == unit
        assert info.devices == {"gpu": [unit]}
        assert info.as_json()["devices"] == {"gpu": [unit]}
    assert {info.result["variable"] for info in infos} == {"a", "b"}


@usually_on("sqlite", "postgresql")
def test_several_units_and_none(queue: Queue, supervisors: Supervisors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "inherited")
    args = {"side": str(queue.side)}
    both = [queue.enqueue("on_two", args), queue.enqueue("on_one", args, uses={"gpu": 2})]
    between = [queue.enqueue("on_one", args) for _ in range(4)]
    without = queue.enqueue("on_none", args)
    supervisors.run_until_idle(*TWO, handlers=DEVICES)
    assert "clash" not in words(queue.side)
    assert [queue.job(job_id).result for job_id in both] == [{"units": ["a", "b"], "variable": "a,b"}] * 2
    assert {len(queue.job(job_id).result["units"]) for job_id in between} == {1}
    info = queue.job(without)
    assert (info.result, info.devices) == ({"units": [], "variable": "inherited"}, None)


@pytest.mark.databases("sqlite")
def test_what_cannot_have_its_units_waits_and_lets_others_by(queue: Queue, supervisors: Supervisors) -> None:
    args = {"side": str(queue.side)}
    waiting = [
        *(queue.enqueue("on_one", args, uses=uses) for uses in ({"gpu": 2}, {"gpu": "0.5"}, {"gpu": 1, "tpu": 1})),
        queue.enqueue("on_two", args),
    ]
    job_id = queue.enqueue("on_one", args)
    supervisors.start(*ONE, handlers=DEVICES)
    assert queue.wait(job_id)[0].state == "done"
    assert {(queue.job(other).state, queue.job(other).attempt) for other in waiting} == {("ready", 0)}


@usually_on("sqlite", "postgresql")
def test_a_unit_is_free_only_when_the_whole_tree_is_gone(queue: Queue, supervisors: Supervisors) -> None:
    args = {"side": str(queue.side)}
    jobs = [sqljobs.JobSpec("dies_and_leaves", {**args, "hopping": True}), sqljobs.JobSpec("on_one", args)]
    ids = queue.enqueue_many(jobs * full_size(4, 40))
    supervisors.start(*TWO, handlers=DEVICES)
    infos = queue.wait(*ids)
    assert "clash" not in words(queue.side)
    assert [info.state for info in infos] == ["failed", "done"] * (len(ids) // 2)


@pytest.mark.databases("sqlite")
def test_a_unit_is_not_free_while_it_is_in_doubt_whose_a_process_is(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    gate, args = tmp_path / "gate", {"side": str(queue.side)}
    waiting = queue.enqueue("waits", {**args, "gate": gate})
    supervisors.start(*ONE, handlers=DEVICES)
    wait_until(lambda: "waits" in words(queue.side), what="the job that may have it too", timeout=60)
    queue.wait(queue.enqueue("leaves_a_daemon", args))
    blocked = queue.enqueue("on_one", args)
    for _ in range(2):
        queue.wait(queue.enqueue("on_none", args))
    assert queue.job(blocked).attempt == 0
    gate.touch()
    assert [info.state for info in queue.wait(waiting, blocked)] == ["done", "done"]
    assert "clash" not in words(queue.side)


@usually_on("sqlite", "postgresql")
def test_what_a_dead_supervisor_left_on_a_unit(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stayed = queue.enqueue("stays_on_one", {"side": str(queue.side), "gate": gate})
    process = supervisors.start(*ONE, *LONG_LEASES, handlers=DEVICES)
    wait_until(lambda: "grandchild" in words(queue.side), what="the grandchild", timeout=60)
    others = [queue.enqueue("on_one", {"side": str(queue.side)}) for _ in range(3)]
    gate.touch()
    process.kill()
    process.wait()
    supervisors.start(*ONE, *LONG_LEASES, handlers=DEVICES)
    infos = queue.wait(stayed, *others)
    assert "clash" not in words(queue.side)
    assert {info.state for info in infos} == {"done"}


@pytest.mark.databases("sqlite")
def test_supervisors_of_one_machine_have_units_of_their_own(queue: Queue, supervisors: Supervisors) -> None:
    supervisors.start("--name", "one", *TWO, handlers=DEVICES)
    wait_until(lambda: "supervisor started" in supervisors.log(), what="the first")
    shares = supervisors.start("--name", "two", "--device", "gpu=c,b", handlers=DEVICES)
    assert shares.wait(timeout=60) == 2
    assert "'one' on this machine has gpu b, too: give each one units of its own" in supervisors.log(1)
    supervisors.start("--name", "two", "--device", "gpu=c", handlers=DEVICES)
    wait_until(lambda: "supervisor started" in supervisors.log(2), what="the one with others")
    states = {row.name: row.state for row in Database.of(queue.engine).read("look", read_supervisors)}
    assert states == {"one": "running", "two": "running"}


class Embedded:
    """A supervisor in this process, with one unit, that looks at the processes often."""

    def __init__(self, queue: Queue, handlers: Path = DEVICES) -> None:
        self._queue = queue
        url = queue.engine.url.render_as_string(hide_password=False)
        queue.engine.dispose()
        self.supervisor = sqljobs.Supervisor(url, str(handlers), slots=2, device={"gpu": ["a"]})
        self.units = self.supervisor._attempts.devices

    def tick_until(self, condition: Callable[[], Any], what: str) -> None:
        def met() -> Any:
            self._queue.engine.dispose()  # a connection to a file may not be open across a fork
            self.supervisor.tick()
            return condition()

        wait_until(met, what=what, timeout=60)

    def tick_in_vain(self, job_id: int) -> None:
        """Some turns in which this job is not claimed."""
        for _ in range(5):
            self.tick_until(lambda: True, "a turn")
            assert self._queue.job(job_id).attempt == 0


@pytest.fixture
def nothing_dies(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Signals do not reach what jobs have left, until undone; and it is looked for often."""
    monkeypatch.setattr(sweeping, "LOOK_SECONDS", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(sweeping, "kill_stray", lambda seen: True)
        yield patched


@usually_on("sqlite", "postgresql")
def test_while_what_a_job_has_left_is_dying(queue: Queue, nothing_dies: pytest.MonkeyPatch) -> None:
    args = {"side": str(queue.side)}
    first = queue.enqueue("dies_and_leaves", {**args, "hopping": False})
    embedded = Embedded(queue)
    embedded.tick_until(lambda: "begin" in words(queue.side), "the first job")
    second = queue.enqueue("on_one", args)
    embedded.tick_until(lambda: not embedded.supervisor._attempts._running, "the death of its child")
    embedded.tick_in_vain(second)
    nothing_dies.undo()
    embedded.tick_until(lambda: queue.job(second).state == "done", "the second job")
    assert (queue.job(first).state, "clash" in words(queue.side)) == ("failed", False)
    embedded.supervisor.stop()


@usually_on("sqlite", "postgresql")
def test_while_what_a_dead_supervisor_has_left_is_dying(
    queue: Queue, supervisors: Supervisors, nothing_dies: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    queue.enqueue("stays_on_one", {"side": str(queue.side), "gate": gate})
    process = supervisors.start(*ONE, *LONG_LEASES, handlers=DEVICES)
    wait_until(lambda: "grandchild" in words(queue.side), what="the grandchild", timeout=60)
    process.kill()
    process.wait()
    other, without = (queue.enqueue(job, {"side": str(queue.side)}) for job in ("on_one", "on_none"))
    embedded = Embedded(queue)
    embedded.tick_until(lambda: queue.job(without).state == "done", "a job that needs no unit")
    assert not embedded.supervisor._takeover.is_clear
    embedded.tick_in_vain(other)
    nothing_dies.undo()
    gate.touch()
    embedded.tick_until(lambda: queue.job(other).state == "done", "the job that waits for the unit")
    assert embedded.supervisor._takeover.is_clear
    assert "clash" not in words(queue.side)
    embedded.supervisor.stop()


@pytest.mark.databases("sqlite")
@pytest.mark.usefixtures("nothing_dies")
def test_units_stay_taken_while_something_of_the_job_cannot_be_killed(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it was given up, and the end of the attempt is on record."""
    monkeypatch.setattr(swept, "PATIENCE_SECONDS", 0.3)
    job_id = queue.enqueue("ends_with", {"side": str(queue.side), "kind": "setsid", "way": "exec"})
    embedded = Embedded(queue, STRAYING)
    embedded.tick_until(lambda: len(embedded.supervisor._attempts), "the attempt")
    assert embedded.units.take(job_id, {"gpu": 1}) == {"gpu": ("a",)}  # as the claim of a job that uses it does
    embedded.tick_until(lambda: embedded.supervisor.endings["done"], "its end")
    stray = noted(queue.side)[("setsid", "exec")]
    try:
        for _ in range(3):
            embedded.tick_until(lambda: True, "a turn")
        assert (len(embedded.supervisor._attempts), embedded.units.free("gpu")) == (0, 0)
    finally:
        os.kill(stray, signal.SIGKILL)
    embedded.tick_until(lambda: embedded.units.free("gpu"), "the unit")
    assert embedded.units.take(job_id, {"gpu": 1}) == {"gpu": ("a",)}
    embedded.supervisor.stop()


@pytest.mark.databases("sqlite")
def test_before_the_first_look_nothing_is_known(queue: Queue) -> None:
    database = Database.of(queue.engine)
    takeover = Takeover(database, "0" * 32, Sweeper(), 10.0, lambda _: Backoff(), supervisor_log("one"))
    assert not takeover.is_clear
    takeover.run(0.0)
    assert takeover.is_clear


def test_what_a_supervisor_tells_of_itself(queue: Queue, supervisors: Supervisors) -> None:
    supervisors.run_until_idle(*TWO, "--only-group", "x", "--only-group", "y", handlers=DEVICES)
    supervisors.run_until_idle("--only-type", "on_none", handlers=DEVICES)
    first, second = Database.of(queue.engine).read("look", read_supervisors)
    assert first.devices == {"gpu": {"units": ["a", "b"]}}
    one, two = Decimal(1), Decimal(2)
    names = ("dies_and_leaves", "leaves_a_daemon", "on_one", "on_two", "stays_on_one")
    assert first.type_uses == {name: {"gpu": two if name == "on_two" else one} for name in names}
    assert first.only_groups == ["x", "y"]
    assert (second.devices, second.type_uses, second.only_groups) == (None, None, None)
