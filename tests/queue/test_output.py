"""What jobs print: captured whatever they do, its end kept with the attempt, and never in the way of the job."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.queue.conftest import Queue, Supervisors, full_size, usually_on
from tests.queue.test_disk_full import fill
from tests.waiting import wait_until

PRINTING = Path(__file__).with_name("printing_handlers.py")
MEGABYTES = full_size(20, 1024)


def tail_of(queue: Queue, job_id: int) -> str | None:
    (attempt,) = queue.job(job_id).attempts
    return attempt.log_tail


def held_files(pid: int) -> list[str]:
    """Descriptors of a process that lead to files without a name; what we have given it as its own streams may, too."""
    found = []
    for number in Path(f"/proc/{pid}/fd").iterdir():
        if number.name in ("0", "1", "2"):
            continue
        try:
            found += [number.name] if number.is_file() and number.stat().st_nlink == 0 else []
        except FileNotFoundError:
            continue
    return found


def descriptors(pid: int) -> int:
    """How many a process has open, those of the database's file left out: it comes and goes."""
    found = []
    for number in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += [number] if ".db" not in str(number.readlink()) else []
        except FileNotFoundError:
            continue
    return len(found)


@usually_on("sqlite", "postgresql")
def test_everything_that_is_printed_is_kept_with_the_attempt(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    names = ("all_ways", "garbage", "is_killed", "fails", "cuts_short")
    ids = {name: queue.enqueue(name) for name in names}
    ids["silent"] = queue.enqueue("silent", {"gate": str(tmp_path)})
    supervisors.run_until_idle(handlers=PRINTING, slots=2)
    tails = {name: tail_of(queue, job_id) for name, job_id in ids.items()}
    assert tails["all_ways"] is not None
    *lines, held_back = tails["all_ways"].split("\n")
    programs = ["from a program", "and its stderr", "from a thread"]
    assert sorted(lines) == sorted(
        ["from print", "to stderr", "from C", "from write", "progress 1", "progress 2", *programs]
    )
    assert held_back in ("C holds this back, and Python this", "and Python thisC holds this back, ")
    assert tails["garbage"] == (r"NUL \x00, no UTF-8 \xff\xfe, a surrogate \xed\xa0\x80, \x1b[31mred, cut \xe4\xbd")
    assert tails["is_killed"] == "last words\nof C, too\n"
    assert queue.job(ids["is_killed"]).attempts[0].cause == "signal"
    assert tails["fails"] is not None
    assert tails["fails"].startswith("half a line, attempt 1 of job ")
    assert tails["fails"].rstrip().endswith("ValueError: told by the traceback")
    assert tails["cuts_short"] is not None
    assert tails["cuts_short"].endswith("after\n")
    assert tails["silent"] is None
    for word in ("from print", "last words", "half a line"):
        assert word not in supervisors.log()


@usually_on("sqlite")
def test_what_prints_without_end_is_kept_short_and_its_end_whole(queue: Queue, supervisors: Supervisors) -> None:
    lines = queue.enqueue("much", {"megabytes": MEGABYTES})
    one = queue.enqueue("one_long_line", {"megabytes": 20})
    supervisors.run_until_idle(handlers=PRINTING, slots=2)
    tail = tail_of(queue, lines)
    assert tail is not None
    assert 60_000 < len(tail) <= 65536
    first, *body, last, nothing = tail.split("\n")
    cut = re.fullmatch(r"\.\.\. \[(\d+) bytes cut\]", first)
    assert cut is not None
    assert int(cut[1]) + len(tail) - len(first) - 1 == (MEGABYTES << 20) + len("the end\n")
    assert [int(line) for line in body] == list(range(65536 - len(body), 65536))
    assert (last, nothing) == ("the end", "")
    tail = tail_of(queue, one)
    assert tail is not None
    assert re.fullmatch(r"\.\.\. \[\d+ bytes cut\]\nx{60000,}", tail)


@usually_on("sqlite", "postgresql")
@pytest.mark.parametrize("how", ["both", "all"])
def test_closed_streams_become_no_connection(queue: Queue, supervisors: Supervisors, how: str) -> None:
    ids = [queue.enqueue("closes", {"how": how}) for _ in range(5)]
    supervisors.run_until_idle(handlers=PRINTING)
    infos = [queue.job(job_id) for job_id in ids]
    assert [(info.state, info.result) for info in infos] == [("done", "well")] * 5
    assert all((info.attempts[0].log_tail or "").startswith("before\n") for info in infos)


@usually_on("sqlite")
def test_streams_that_were_led_elsewhere(queue: Queue, supervisors: Supervisors, tmp_path: Path) -> None:
    job_id = queue.enqueue("replaces", {"file": str(tmp_path / "own")})
    supervisors.run_until_idle(handlers=PRINTING)
    assert (queue.job(job_id).result, tail_of(queue, job_id)) == ("well", "before\n")
    assert (tmp_path / "own").read_text() == "to the file\n"


@usually_on("sqlite")
def test_a_program_that_prints_after_the_end_is_killed_and_heard_until_then(
    queue: Queue, supervisors: Supervisors
) -> None:
    job_id = queue.enqueue("leaves_a_program_that_prints")
    supervisors.run_until_idle(handlers=PRINTING)
    info = queue.job(job_id)
    tail = info.attempts[0].log_tail
    assert info.state == "done"
    assert tail is not None
    assert "still here\n" in tail


@usually_on("sqlite")
def test_no_descriptor_and_no_file_is_left(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    gate = tmp_path / "gate"
    process = supervisors.start(handlers=PRINTING, slots=4)
    queue.wait(queue.enqueue("fails"))
    wait_until(lambda: not held_files(process.pid), what="the first file to be closed")
    before = descriptors(process.pid)
    running = queue.enqueue("speaks", {"gate": str(gate)})
    wait_until(lambda: held_files(process.pid), what="the files of a running job")
    queue.wait(*[queue.enqueue("all_ways") for _ in range(full_size(20, 500))])
    gate.touch()
    queue.wait(running)
    wait_until(lambda: not held_files(process.pid), what="all files to be closed")
    wait_until(lambda: descriptors(process.pid) <= before, what="as few descriptors as after the first job")
    killed = queue.enqueue("speaks", {"gate": str(tmp_path / "never")})
    wait_until(lambda: queue.job(killed).state == "running", what="the job to run", timeout=60)
    process.kill()
    process.wait()
    assert list(folder.iterdir()) == []


@usually_on("sqlite")
def test_without_a_folder_for_temporary_files_memory_serves(queue: Queue, supervisors: Supervisors) -> None:
    """/proc takes no files, as little as a disk that is mounted read-only."""
    code = "import tempfile; tempfile.gettempdir = lambda: '/proc'\n"
    handlers = supervisors.folder / "on_proc.py"
    handlers.write_text(code + PRINTING.read_text())
    ids = [queue.enqueue("much", {"megabytes": 20}), queue.enqueue("garbage")]
    supervisors.run_until_idle(handlers=handlers)
    assert (tail_of(queue, ids[0]) or "").endswith("\nthe end\n")
    assert (tail_of(queue, ids[1]) or "").startswith("NUL")


@usually_on("sqlite")
def test_print_goes_on_where_the_file_takes_no_more(queue: Queue, supervisors: Supervisors) -> None:
    job_id = queue.enqueue("fills_the_disk")
    supervisors.run_until_idle(handlers=PRINTING)
    info = queue.job(job_id)
    assert (info.state, info.result) == ("done", "told: File too large")
    assert (info.attempts[0].log_tail or "").startswith("line 0\nline 1\n")


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small disk, which needs root")
@usually_on("sqlite")
def test_a_full_disk_costs_lines_and_no_job(
    queue: Queue,
    supervisors: Supervisors,
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk fills up under a running job; a later one finds it full, and its output goes to memory."""
    handlers = tmp_path / "small.py"
    code = "import sqljobs.supervisor.output as output; output.ROOM_BYTES = 1 << 20\n"
    handlers.write_text(code + PRINTING.read_text())
    monkeypatch.setenv("TMPDIR", str(small_disk))
    gates = [(tmp_path / f"gate{number}", tmp_path / f"done{number}") for number in range(2)]
    process = supervisors.start(handlers=handlers)
    ids = [queue.enqueue("prints_on_a_full_disk", {"gate": str(gates[0][0]), "done": str(gates[0][1])})]
    wait_until(lambda: queue.job(ids[0]).state == "running", what="the first to run", timeout=60)
    wait_until(lambda: held_files(process.pid), what="its file")
    fill(small_disk / "ballast")
    ids += [queue.enqueue("prints_on_a_full_disk", {"gate": str(gates[1][0]), "done": str(gates[1][1])})]
    wait_until(lambda: queue.job(ids[1]).state == "running", what="the second to run", timeout=60)
    for gate, _ in gates:
        gate.touch()
    first, second = queue.wait(*ids)
    assert (first.state, second.state) == ("done", "done")
    assert second.result == "program ended 0"
    wait_until(lambda: all(tail_of(queue, job_id) is not None for job_id in ids), what="the evidence")
    assert (tail_of(queue, ids[0]) or "").startswith("there is room\n")
    assert (tail_of(queue, ids[1]) or "").endswith("no room 1999\nprogram\n")


@usually_on("sqlite")
def test_a_fault_of_ours_in_the_child_is_one_line_of_the_supervisors_log(
    queue: Queue, supervisors: Supervisors
) -> None:
    job_id = queue.enqueue("garbage", {}, max_attempts=1)
    process = supervisors.start(handlers=PRINTING, failpoints="child.settled=raise")
    wait_until(lambda: '"said"' in supervisors.log(), what="the fault in the log", timeout=60)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert "Traceback" not in supervisors.log()
    assert all(line.startswith("{") for line in supervisors.log().splitlines())
    assert "Traceback" in (queue.job(job_id).attempts[0].log_tail or "")


TELLING = """
import logging, os, signal
import sqljobs

class Side(logging.Handler):
    def emit(self, record):
        with open({side!r}, "a") as file:
            kind = record.exc_info[0].__name__
            file.write(f"{{record.levelname}} {{record.job_type}} {{record.job_id}} {{record.attempt}} {{kind}}\\n")
        if record.job_type == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise KeyboardInterrupt

logging.getLogger("sqljobs.job").addHandler(Side())

@sqljobs.handler(max_attempts=1)
def fails(): raise ValueError("no")

@sqljobs.handler(max_attempts=1)
def leaves(): raise SystemExit(0)

@sqljobs.handler(max_attempts=1)
def killed(): raise ValueError("no")

@sqljobs.handler(max_attempts=1)
def gives_up(): raise sqljobs.Cancel("not wanted")

@sqljobs.handler(max_attempts=1)
def no_json(): return object()
"""


@usually_on("sqlite")
def test_the_applications_logging_sees_the_exception_before_the_end_is_written(
    queue: Queue, supervisors: Supervisors, tmp_path: Path
) -> None:
    handlers, side = tmp_path / "telling.py", tmp_path / "told"
    handlers.write_text(TELLING.format(side=str(side)))
    causes = {"fails": "error", "leaves": "error", "killed": "signal", "gives_up": "cancelled", "no_json": "bad_result"}
    kinds = {"fails": "ValueError", "leaves": "SystemExit", "killed": "ValueError", "no_json": "InvalidJob"}
    ids = {name: queue.enqueue(name) for name in causes}
    supervisors.run_until_idle(handlers=handlers)
    assert {name: queue.job(job_id).attempts[0].cause for name, job_id in ids.items()} == causes
    told = [f"ERROR {name} {ids[name]} 1 {kind}" for name, kind in kinds.items()]
    assert sorted(side.read_text().splitlines()) == sorted(told)
