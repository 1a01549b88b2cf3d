"""A queue on a real server, and real supervisors as processes of their own."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.schema import migrate
from sqljobs.schema.transactions import Database
from stress.servers.server import KINDS
from tests.waiting import wait_until

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
HANDLERS = Path(__file__).with_name("sample_handlers.py")
QUICK_LEASES = ["--heartbeat", "0.3", "--ttl", "3", "--deadline", "1.5", "--kill-grace", "1"]


@dataclass
class Supervisors:
    """Starts `sqljobs run` on one database; what still runs after the test is killed."""

    url: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self,
        *arguments: str,
        handlers: Path = HANDLERS,
        slots: int = 4,
        failpoints: str = "",
        terminal: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """A supervisor; its log is in `folder`/supervisor-N.log. `terminal`: of this descriptor, which controls it."""
        log = self.folder / f"supervisor-{len(self.processes)}.log"
        command = [sys.executable, "-m", "sqljobs.supervisor", "--url", self.url, "run"]
        options = ["--handlers", str(handlers), "--slots", str(slots), *QUICK_LEASES, *arguments]
        with log.open("wb") as stderr:
            # Handlers may share code of the tests, wherever pytest was started.
            path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
            environment = {**os.environ, "SQLJOBS_FAILPOINTS": failpoints, "PYTHONPATH": path}
            process = subprocess.Popen(
                command + options,
                stdin=terminal,
                stderr=stderr,
                cwd=self.folder,
                env=environment,
                start_new_session=terminal is not None,
                preexec_fn=None if terminal is None else lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY, 0),
            )
        self.processes.append(process)
        return process

    def run_until_idle(self, *arguments: str, handlers: Path = HANDLERS, slots: int = 4, count: int = 1) -> None:
        """Start `count` supervisors and wait until all have ended, each with 0."""
        started = [self.start("--until-idle", *arguments, handlers=handlers, slots=slots) for _ in range(count)]
        for process in started:
            assert process.wait(timeout=240) == 0, self.log(self.processes.index(process))

    def log(self, number: int = 0) -> str:
        """What the supervisor with this number has logged so far."""
        return (self.folder / f"supervisor-{number}.log").read_text()


@dataclass
class Queue:
    """One database with our tables, and the side file of its handlers."""

    engine: Engine
    side: Path

    def enqueue(self, job: str | sqljobs.JobSpec, args: dict[str, Any] | None = None, **options: Any) -> int:
        with Session(self.engine) as session, session.begin():
            return sqljobs.enqueue(session, job, args, **options)

    def enqueue_many(self, specs: list[sqljobs.JobSpec]) -> list[int]:
        with Session(self.engine) as session, session.begin():
            return sqljobs.enqueue_many(session, specs)

    def job(self, job_id: int) -> sqljobs.JobInfo:
        with Session(self.engine) as session:
            return sqljobs.get_job(session, job_id)

    def wait(self, *ids: int) -> list[sqljobs.JobInfo]:
        return sqljobs.wait(self.engine, *ids, timeout=120)

    def wait_for_cause(self, job_id: int, cause: str) -> None:
        """Until an attempt of the job has ended with this cause."""

        def causes() -> bool:
            return any(attempt.cause == cause for attempt in self.job(job_id).attempts)

        wait_until(causes, what=f"an attempt that ends as {cause}", timeout=120)

    def notes(self) -> list[tuple[str, int, int, int, int]]:
        """The side file: (word, job, attempt, pid, boot-time nanoseconds) per line."""
        if not self.side.exists():
            return []
        lines = [line.split() for line in self.side.read_text().splitlines()]
        return [(word, int(job), int(attempt), int(pid), int(moment)) for word, job, attempt, pid, moment in lines]

    def wait_for_notes(self, count: int) -> list[tuple[str, int, int, int, int]]:
        def enough() -> list[tuple[str, int, int, int, int]]:
            notes = self.notes()
            return notes if len(notes) >= count else []

        return wait_until(enough, what=f"{count} lines in the side file", timeout=full_size(90, 600))


@pytest.fixture
def queue(db_url: str, tmp_path: Path) -> Iterator[Queue]:
    engine = sqljobs.create_engine(db_url)
    migrate.initialise(Database.of(engine))
    yield Queue(engine, tmp_path / "side")
    engine.dispose()


@pytest.fixture
def supervisors(db_url: str, tmp_path: Path) -> Iterator[Supervisors]:
    started = Supervisors(db_url, tmp_path)
    yield started
    for process in started.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
    for number, process in enumerate(started.processes):  # pytest shows it when the test has failed
        print(f"supervisor {number} ended {process.returncode}; its log ends:\n{started.log(number)[-4000:]}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:  # root in a container may not
        pytest.skip(f"NOT TESTED: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    """Whether a process with this pid exists and is not a zombie."""

    def alive(pid: int) -> bool:
        try:
            return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False

    return alive


def usually_on(*kinds: str) -> pytest.MarkDecorator:
    """Run with these databases; with all of them for the figures of a release."""
    return pytest.mark.databases(*full_size(kinds, KINDS))


def full_size(usual: T, full: T) -> T:
    """The size of a test: `full` for the figures of a release (SQLJOBS_TEST_FULL=1), else `usual`."""
    return full if os.environ.get("SQLJOBS_TEST_FULL") == "1" else usual
