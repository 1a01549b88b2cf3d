"""`sqljobs logs` and `show --log`: of jobs that run here, elsewhere, not yet or no more."""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqljobs.schema.claim import Claimer
from sqljobs.schema.evidence import Evidence, record_evidence
from sqljobs.schema.finalize import start
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.ready import due, promote_due
from sqljobs.schema.supervisors import Registration, owner_of, register
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.liveness import boot_id, start_ticks_of
from tests.cli.calling import PROGRAM, Cli
from tests.schema.playing import DONE, end, lease, put
from tests.waiting import wait_until

PRINTING = Path(__file__).parents[1] / "queue" / "printing_handlers.py"
DEADLINE = 60


class Printing:
    """A job that prints what a test writes: its file is held by this process, as its supervisor, and by a child."""

    def __init__(self, queue: Database, folder: Path, boot: str) -> None:
        self.queue = queue
        self.output = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_APPEND, 0o600)
        self.other = os.memfd_create("of another use")
        os.write(self.other, b"of another use")
        self.child = subprocess.Popen(["sleep", "600"], stdout=self.output, stderr=self.other)
        ticks = start_ticks_of(os.getpid())
        assert ticks is not None
        wanted = Registration(
            uuid.uuid4().hex, "here", "elsewhere.example", boot, os.getpid(), ticks, 1, ["t"], 60.0, 10.0
        )
        name = register(queue, wanted)
        self.claimer = Claimer(owner_of(name, wanted.id), name, 60.0)
        self.job_id = put(queue)
        self.fence = self.begin()

    def begin(self) -> Fence:
        self.queue.transaction("due", lambda tx: promote_due(tx, due(tx)))  # what was tried before
        (one,) = lease(self.queue, self.job_id, claimer=self.claimer)
        pid = self.child.pid
        assert self.queue.transaction("start", lambda tx: start(tx, one.fence, pid=pid, start_ticks=1))
        return one.fence

    def write(self, data: bytes) -> None:
        os.write(self.output, data)

    def finish(self, log_tail: str | None, outcome: Outcome = DONE) -> None:
        assert end(self.queue, self.fence, outcome) is not None
        found = Evidence(self.fence, self.child.pid, 1, 0, None, 0.1, 1, log_tail)
        self.queue.transaction("evidence", lambda tx: record_evidence(tx, [found]))

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        os.close(self.output)
        os.close(self.other)


@pytest.fixture
def printing(queue: Database, folder: Path) -> Iterator[Printing]:
    """One that runs on this box."""
    made = Printing(queue, folder, boot_id())
    yield made
    made.close()


@pytest.fixture
def distant(queue: Database, folder: Path) -> Iterator[Printing]:
    """One that runs on another."""
    made = Printing(queue, folder, "another boot")
    yield made
    made.close()


def following(job_id: int) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*PROGRAM, "logs", str(job_id), "--follow"], stdout=pipe, stderr=pipe, text=True)


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_what_is_kept_of_a_running_job(cli: Cli, printing: Printing) -> None:
    printing.write(b"hello \x1b[31m\xff\r\n" + "right to left \u202e".encode() + b"\nhalf a line")
    said = cli("logs", printing.job_id)
    assert (said.code, said.err) == (0, "")
    assert said.out == "hello \\x1b[31m\\xff\nright to left \\u202e\nhalf a line\n"
    assert cli("logs", printing.job_id, "--json").json == {
        "id": printing.job_id,
        "attempt": 1,
        "ended": False,
        "text": "hello \\x1b[31m\\xff\nright to left \u202e\nhalf a line",
    }
    assert f"see `sqljobs logs {printing.job_id}`" in cli("show", printing.job_id, "--log").out


def test_what_was_dropped_is_counted(cli: Cli, printing: Printing) -> None:
    printing.write(b"x" * (1 << 20) + b"\n")
    os.truncate(printing.output, 0)
    os.ftruncate(printing.output, 3 << 20)  # a hole, as trimming leaves it
    printing.write(b"the end\n")
    said = cli("logs", printing.job_id)
    assert (said.code, said.out) == (0, f"... [{3 << 20} bytes cut]\nthe end\n")


def test_of_a_job_that_has_ended(cli: Cli, printing: Printing) -> None:
    printing.finish("one\n  two\n\nthree")
    said = cli("logs", printing.job_id)
    assert (said.code, said.out, said.err) == (0, "one\n  two\n\nthree\n", "")
    assert cli("logs", printing.job_id, "--follow") == said
    shown = cli("show", printing.job_id, "--log").out
    assert shown.endswith("\nOutput of attempt 1\n  one\n    two\n  \n  three\n")
    assert "three" not in cli("show", printing.job_id).out
    assert cli("show", printing.job_id, "--log", "--json").json["attempts"][0]["log_tail"] == "one\n  two\n\nthree"


def test_of_an_earlier_attempt(cli: Cli, printing: Printing) -> None:
    job_id = printing.job_id
    printing.finish("the crash\n", Outcome(Cause.ERROR, error="no", after=0.0))
    assert cli("show", job_id, "--json").json["error"] == "no"
    printing.fence = printing.begin()
    printing.finish("went well\n")
    assert cli("logs", job_id).out == "went well\n"
    assert cli("logs", job_id, "--attempt", 1).out == "the crash\n"
    assert cli("logs", job_id, "--attempt", 1, "--json").json["text"] == "the crash\n"
    assert cli("show", job_id, "--json").json["error"] is None  # it has been done since
    assert f"job {job_id} has no attempt 3: its last one is 2" in cli.refused(2, "logs", job_id, "--attempt", 3)
    assert cli("logs", job_id, "--attempt", 1, "--follow").code == 2


def test_of_a_job_that_has_printed_nothing_or_not_run(cli: Cli, queue: Database, printing: Printing) -> None:
    printing.finish(None)
    said = cli("logs", printing.job_id)
    assert (said.code, said.out, said.line) == (0, "", f"attempt 1 of job {printing.job_id} has printed nothing")
    assert "Output of attempt 1: none" in cli("show", printing.job_id, "--log").out
    waiting = put(queue)
    said = cli("logs", waiting)
    assert (said.code, said.out, said.line) == (0, "", f"job {waiting} has not run yet: it is ready")
    assert cli("logs", waiting, "--json").json == {"id": waiting, "attempt": None, "ended": False, "text": None}
    cli("cancel", waiting)
    said = cli("logs", waiting, "--follow")
    assert (said.code, said.out, said.line) == (0, "", f"job {waiting} has never run: it is cancelled")


def test_refused(cli: Cli, queue: Database) -> None:
    job_id = put(queue)
    assert "there is no job 99" in cli.refused(1, "logs", 99)
    followed = cli("logs", 99, "--follow")
    assert (followed.code, "there is no job 99" in followed.line) == (1, True)
    assert cli("logs", job_id, "--follow", "--json").code == 2
    assert cli("logs", "many").code == 2


def test_follow_shows_lines_as_they_come_and_ends_with_the_job(printing: Printing) -> None:
    printing.write(b"first\n")
    process = following(printing.job_id)
    assert next_line(process) == "first\n"
    printing.write("sécond\n".encode()[:2])
    printing.write("sécond\n".encode()[2:])
    assert next_line(process) == "sécond\n"
    assert process.poll() is None
    printing.write(b"last")
    printing.finish("last")
    out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out, err) == (0, "last", "")


def test_follow_goes_on_where_the_file_was_cut_short(printing: Printing) -> None:
    printing.write(b"a long first line\n")
    process = following(printing.job_id)
    assert next_line(process) == "a long first line\n"
    os.ftruncate(printing.output, 0)
    printing.write(b"short\n")
    assert next_line(process) == "short\n"
    printing.finish(None)
    assert process.communicate(timeout=DEADLINE) == ("", "")


def test_follow_of_a_job_elsewhere_says_so_and_shows_the_end(cli: Cli, distant: Printing) -> None:
    told = (
        f"job {distant.job_id} runs on elsewhere.example, and what it prints can be read only there;"
        " when attempt 1 has ended, its end is shown here"
    )
    said = cli("logs", distant.job_id)
    assert (said.code, said.out, said.line) == (0, "", told)
    process = following(distant.job_id)
    assert process.stderr is not None
    assert process.stderr.readline() == f"sqljobs: {told}\n"
    distant.finish("its end")
    assert process.communicate(timeout=DEADLINE) == ("its end\n", "")
    assert process.returncode == 0


def test_follow_of_a_process_that_holds_the_file_no_more(cli: Cli, printing: Printing) -> None:
    printing.child.kill()
    printing.child.wait()
    assert "or its process has closed all of its descriptors" in cli("logs", printing.job_id).line


def test_follow_goes_on_with_the_next_attempt(printing: Printing) -> None:
    process = following(printing.job_id)
    printing.write(b"one\n")
    assert next_line(process) == "one\n"
    printing.finish("one\n", Outcome(Cause.ERROR, error="no"))
    os.ftruncate(printing.output, 0)
    printing.fence = printing.begin()
    assert process.stderr is not None
    assert process.stderr.readline() == f"sqljobs: attempt 2 of job {printing.job_id} begins\n"
    printing.write(b"two\n")
    assert next_line(process) == "two\n"
    printing.finish("two\n")
    assert process.communicate(timeout=DEADLINE) == ("", "")
    assert process.returncode == 0


def test_follow_ends_with_ctrl_c_and_with_its_reader(printing: Printing) -> None:
    printing.write(b"first\n")
    process = following(printing.job_id)
    assert next_line(process) == "first\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out, err.strip()) == (130, "", "")
    process = following(printing.job_id)
    assert next_line(process) == "first\n"
    assert process.stdout is not None
    process.stdout.close()  # though the job prints nothing more
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(DEADLINE) == 0


def test_follow_of_a_real_supervisor(cli: Cli, queue: Database, folder: Path) -> None:
    gate = folder / "gate"
    job_id = put(queue, "speaks", {"gate": str(gate), "word": "é"})
    follower = following(job_id)
    assert follower.stderr is not None
    assert follower.stderr.readline() == f"sqljobs: job {job_id} has not run yet: it is ready; waiting for it\n"
    command = [*PROGRAM, "run", "--handlers", str(PRINTING), "--until-idle"]
    with (folder / "log").open("wb") as log:
        supervisor = subprocess.Popen(command, stderr=log)
    try:
        assert next_line(follower) == "é 1\n"
        wait_until(lambda: cli("logs", job_id).out == "é 1\n", what="the same by hand")
        gate.touch()
        assert follower.communicate(timeout=DEADLINE) == ("é 2\n", "")
        assert (follower.returncode, supervisor.wait(DEADLINE)) == (0, 0)
    finally:
        supervisor.kill()
        supervisor.wait()
    assert cli("logs", job_id).out == "é 1\né 2\n"
    assert "é" not in (folder / "log").read_text()
