"""`sqljobs demo` from its first line to its last: enqueue, start a supervisor, watch, report.
Only the order of things is here: figures come from summary, drawing from live and report."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text
from sqlalchemy import Engine, make_url, select
from sqlalchemy.orm import Session

import sqljobs
from sqljobs.demo.launch import command_line, shown, stop, supervisor
from sqljobs.demo.live import JobNow, Progress, colours_of
from sqljobs.demo.pipeline import WEIGHTS, Part, build_specs, cut, find_sources
from sqljobs.demo.report import print_report
from sqljobs.demo.summary import MERGE, Summary, fair_shares, measure, mishaps_of, name_of, timeline_of
from sqljobs.demo.timeline import timeline_svg
from sqljobs.schema.engine import READ_ONLY, is_memory
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.migrate import initialise
from sqljobs.schema.transactions import Database

SLOTS = 6
"""The sum of the weights, so that each group is due a whole number of slots."""

POLL_SECONDS = 0.15
ALL_WEIGHTS = {**WEIGHTS, MERGE: 1}
ENDED = ("done", "failed", "cancelled")


def run_demo(
    *,
    url: str,
    path: Path | None,
    slots: int | None,
    json_output: bool,
    picture: Path = Path("demo-timeline.svg"),
) -> int:
    """Index the sources below `path` with jobs in the database at `url`; show it all, or print JSON.

    Returns 0 if every job ended done, 1 if one did not, 130 after Ctrl-C, else the supervisor's exit code.
    Raises `InvalidJob` for a folder without Python files, a database without a file and a folder that the
    picture cannot be written to; `DatabaseUnavailable`."""
    console = Console(quiet=json_output)
    root = (path or Path(sysconfig.get_path("stdlib"))).resolve()
    parts = cut(find_sources(root))
    refuse(url, root, parts, picture)
    engine = sqljobs.create_engine(url)
    try:
        initialise(Database.of(engine))
        introduce(console, root, parts, slots or SLOTS)
        begun = time.monotonic()
        with Session(engine) as session, session.begin():
            ids = sqljobs.enqueue_many(session, build_specs(root, parts))
        code = watch(console, engine, url, ids, slots or SLOTS)
        if code != 0:
            if json_output:
                print(json.dumps({"error": "the demo did not end well; stderr says more", "code": code}))
            return code
        infos = read_all(engine, ids)
    finally:
        engine.dispose()
    attempts = timeline_of(infos)
    picture.write_text(timeline_svg(attempts, f"An index of {root.name}, made by {len(ids)} jobs"), "utf-8")
    summary = Summary(
        path=str(root),
        database=shown(url),
        slots=slots or SLOTS,
        seconds=round(time.monotonic() - begun, 3),
        merge_id=ids[-1],
        found=infos[-1].result,
        costs=[measure(info) for info in infos],
        mishaps=[mishap for info in infos for mishap in mishaps_of(info)],
        fair_share=fair_shares(attempts),
        picture=str(picture),
    )
    print_report(console, summary, colours_of(ALL_WEIGHTS), command_line(url))
    if json_output:
        print(json.dumps(summary.as_json(), indent=2))
    return 0 if summary.all_done else 1


def refuse(url: str, root: Path, parts: list[Part], picture: Path) -> None:
    """Raises `InvalidJob` for what could not end well."""
    if not parts:
        raise InvalidJob(f"there are no Python files below {root}: name another folder with --path")
    if is_memory(make_url(url)):
        raise InvalidJob("the supervisor is a process of its own: name a file, e.g. --url sqlite:///demo.db")
    folder = picture.resolve().parent
    if not os.access(folder, os.W_OK):
        raise InvalidJob(f"the picture cannot be written to {folder}: start the demo in another folder")


def introduce(console: Console, root: Path, parts: list[Part], slots: int) -> None:
    """Say what is about to happen."""
    files, size = sum(len(part.files) for part in parts), sum(part.size for part in parts)
    weights = ", ".join(f"{group} {weight}" for group, weight in WEIGHTS.items())
    console.print()
    console.print(Text(f"An index of {root}", style="bold"))
    console.print(
        f"{files:,} Python files, {size / 1e6:.1f} MB. {len(parts)} jobs parse them; one waits for all and adds up.\n"
        f"Three groups share {slots} slots by weight: {weights}.\n"
        "One job raises and one kills its own process, each at its first attempt only.\n",
        highlight=False,
    )


def reader(engine: Engine) -> Session:
    """A session that only looks: on SQLite it must not keep the supervisor from writing."""
    return Session(engine.execution_options(**{READ_ONLY: True}))


def read_all(engine: Engine, ids: list[int]) -> list[sqljobs.JobInfo]:
    """All that is known of these jobs, in this order."""
    with reader(engine) as session:
        return [sqljobs.get_job(session, job_id) for job_id in ids]


def look(engine: Engine, ids: list[int], names: dict[int, str]) -> list[JobNow]:
    """Where these jobs stand now."""
    job = sqljobs.Job
    query = select(job.id, job.group_key, job.state, job.attempt).where(job.id.in_(ids)).order_by(job.id)
    with reader(engine) as session:
        return [JobNow(row.id, names[row.id], *row[1:]) for row in session.execute(query)]


def watch(console: Console, engine: Engine, url: str, ids: list[int], slots: int) -> int:
    """Run a supervisor until the queue is idle, and show how far it is. Returns its exit code, or 130."""
    names = {info.id: name_of(info) for info in read_all(engine, ids)}
    told: set[int] = set()
    begun = time.monotonic()
    with supervisor(url, slots) as process, Progress(console, ALL_WEIGHTS) as progress:
        try:
            while process.poll() is None:
                jobs = look(engine, ids, names)
                retried = [job.id for job in jobs if job.attempt > 1 and job.id not in told]
                for info in read_all(engine, retried):
                    told.add(info.id)
                    for mishap in mishaps_of(info):
                        progress.say(Text(f"  job {info.id}, {mishap.name}: attempt {mishap.attempt} {mishap.what}"))
                progress.update(jobs, time.monotonic() - begun)
                wait_for(process, POLL_SECONDS)
        except KeyboardInterrupt:
            stop(process)
            left = [job.id for job in look(engine, ids, names) if job.state not in ENDED]
            with Session(engine) as session, session.begin():
                sqljobs.cancel(session, *left)
            console.print(f"Stopped; {len(left)} jobs that had not ended are cancelled.")
            return 130
        progress.update(look(engine, ids, names), time.monotonic() - begun)
    return process.returncode


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Return after `seconds`, or as soon as the process has ended."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
