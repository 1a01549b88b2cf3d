"""`sqljobs demo` as a user runs it: its own process, a real supervisor, real failures, on SQLite."""

import json
import os
import shlex
import signal
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path
from typing import Any

import pytest

from sqljobs.demo.pipeline import cut, find_sources
from tests.waiting import wait_until

SQLJOBS = [sys.executable, "-m", "sqljobs.supervisor"]
ROOT = Path(__file__).parents[2]
PATIENCE = 120


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A small tree: twelve packages of different size and some loose modules."""
    root = tmp_path / "sources"
    for number in range(1, 13):
        package = root / f"package_{number}"
        package.mkdir(parents=True)
        function = f'def f{number}():\n    """Documented."""\n    import json\n    return json\n\n'
        for module in range(number):
            (package / f"module_{module}.py").write_text(function * 40)
    (root / "loose.py").write_text("class Loose:\n    pass\n")
    (root / "broken.py").write_text("def (\n")
    return root


def environment() -> dict[str, str]:
    """Ours without settings of sqljobs, so that the default database in the current folder is used."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SQLJOBS_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A sqljobs command in `folder`."""
    return subprocess.Popen(
        [*SQLJOBS, *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def sqljobs(folder: Path, *arguments: str, code: int = 0) -> str:
    """Run a command to its end; its stdout."""
    with start(folder, *arguments) as process:
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, f"{arguments} ended {process.returncode}:\n{output}\n{errors}"
    return output or errors


def demo(folder: Path, sources: Path) -> dict[str, Any]:
    """The JSON summary of one run."""
    summary: dict[str, Any] = json.loads(sqljobs(folder, "--json", "demo", "--path", str(sources)))
    return summary


def test_a_run_and_a_second_one_on_the_same_database(tmp_path: Path, sources: Path) -> None:
    first = demo(tmp_path, sources)
    files = find_sources(sources)
    assert first["all_done"]
    assert first["jobs"] == len(cut(files)) + 1
    assert first["found"]["totals"]["files"] == len(files)
    assert first["found"]["totals"]["functions"] == sum(40 * n for n in range(1, 13))
    assert first["found"]["totals"]["unreadable"] == 1

    raised, killed = sorted(first["mishaps"], key=lambda mishap: str(mishap["cause"]))
    assert (raised["cause"], killed["cause"]) == ("error", "signal")
    assert "made to fail at its first attempt" in raised["what"]
    assert "SIGKILL" in killed["what"]
    assert raised["mended"]
    assert killed["mended"]
    tries = {cost["id"]: cost["attempts"] for cost in first["costs"]}
    assert {id for id, count in tries.items() if count > 1} == {raised["id"], killed["id"]}
    assert all(cost["max_rss_bytes"] > 0 and cost["cpu_seconds"] >= 0 for cost in first["costs"])
    assert [share["group"] for share in first["fair_share"]] == ["gold", "silver", "bronze"]

    picture = xml.dom.minidom.parse(str(tmp_path / "demo-timeline.svg"))
    assert len(picture.getElementsByTagName("title")) == sum(tries.values())

    second = demo(tmp_path, sources)
    assert second["all_done"]
    assert second["found"] == first["found"]
    assert not {cost["id"] for cost in second["costs"]} & set(tries)


def test_what_it_prints_ends_with_commands_that_work(tmp_path: Path, sources: Path) -> None:
    output = sqljobs(tmp_path, "demo", "--path", str(sources))
    for words in ("What each job cost", "What was found", "SIGKILL", "made to fail", "Who got the slots"):
        assert words in output
    assert "jobs done" in output
    program = shlex.join(SQLJOBS)
    ending = output[output.index("Look around") :]
    commands = [line.strip().removeprefix(program) for line in ending.splitlines() if program in line]
    assert len(commands) == 5
    for command in commands:
        assert sqljobs(tmp_path, *shlex.split(command, comments=True)).strip()
    assert (tmp_path / "my-first-jobs" / "pipeline.py").exists()


def test_the_ejected_files_run_with_the_three_commands_of_their_readme(tmp_path: Path, sources: Path) -> None:
    folder = tmp_path / "mine"
    sqljobs(tmp_path, "demo", "--eject", str(folder))
    sqljobs(folder, "init")
    pipeline = [sys.executable, "pipeline.py", str(sources)]
    subprocess.run(pipeline, cwd=folder, env=environment(), check=True, timeout=PATIENCE)
    sqljobs(folder, "run", "--handlers", "handlers.py", "--until-idle")
    jobs = json.loads(sqljobs(folder, "--json", "list"))
    assert {job["state"] for job in jobs} == {"done"}
    assert len(jobs) == len(cut(find_sources(sources))) + 1
    refusal = sqljobs(tmp_path, "demo", "--eject", str(folder), code=2)
    assert "handlers.py is there already" in refusal


def test_interrupted_it_leaves_no_open_job_and_no_process(tmp_path: Path) -> None:
    def runs() -> bool:
        if not (tmp_path / "sqljobs.db").exists():
            return False
        with start(tmp_path, "--json", "list", "--state", "running") as probe:
            output, _ = probe.communicate(timeout=PATIENCE)
        return probe.returncode == 0 and bool(json.loads(output))

    with start(tmp_path, "demo") as process:
        wait_until(runs, timeout=PATIENCE, what="a running job of the demo")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output + errors
    jobs = json.loads(sqljobs(tmp_path, "--json", "list", "--limit", "200"))
    assert {job["state"] for job in jobs} <= {"done", "cancelled"}
    assert "cancelled" in {job["state"] for job in jobs}


def test_a_folder_without_sources_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    line = sqljobs(tmp_path, "demo", "--path", "empty", code=2)
    assert "no Python files" in line
    assert "--path" in line
    assert len(line.strip().splitlines()) == 1
    assert not (tmp_path / "sqljobs.db").exists()
