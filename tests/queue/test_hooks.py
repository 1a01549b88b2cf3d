"""Hooks in the children of a real supervisor: when they run, and that they change no end of an attempt."""

from pathlib import Path

import pytest

from tests.queue.conftest import Queue, Supervisors, usually_on

HOOKED = Path(__file__).with_name("hooked_handlers.py")
STARTS, ENDS = ["start 1", "start 2"], ["end 1", "end 2"]

# type -> (causes, exit code of the last attempt, what ran)
RAN: dict[str, tuple[list[str], int | None, list[str]]] = {
    "plain": (["done"], 0, [*STARTS, "handler", *ENDS]),
    "beset": (["done"], 0, [*STARTS, "handler", *ENDS]),
    "raises": (["error"], 0, [*STARTS, *ENDS]),
    "takes": (["bad_args"], 0, [*STARTS, *ENDS]),
    "too_long": (["timeout"], 0, [*STARTS, *ENDS]),
    "dies": (["exit"], 3, STARTS),
    "dies_in_a_start_hook": (["interrupted", "done"], 0, ["start 1", *STARTS, "handler", *ENDS]),
    "unwritten": (["exit"], 74, [*STARTS, *ENDS]),
    "unwritten_and_hangs_in_c": (["exit"], 1, [*STARTS, "end 1"]),
    "taken_over": (["exit"], 75, STARTS),
}


@usually_on("sqlite", "postgresql")
def test_hooks_around_every_kind_of_end(
    queue: Queue, supervisors: Supervisors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = tmp_path / "hooks"
    monkeypatch.setenv("HOOKS_SIDE", str(side))
    ids = {name: queue.enqueue(name) for name in RAN}
    supervisors.run_until_idle(handlers=HOOKED)
    jobs = {name: queue.job(job_id) for name, job_id in ids.items()}
    lines = [line.partition(" ") for line in side.read_text().splitlines()]
    for name, job in jobs.items():
        ran = [word for job_id, _, word in lines if int(job_id) == job.id]
        seen = ([attempt.cause for attempt in job.attempts], job.attempts[-1].exit_code, ran)
        assert seen == RAN[name], name
    assert jobs["plain"].result == "well"
    killed = jobs["dies_in_a_start_hook"]
    assert killed.max_attempts == 2, "a try that a hook has cost is not used up"
    assert (killed.attempts[0].signal, killed.attempts[0].log_tail) == ("SIGKILL", "printed by a start hook\n")
    assert jobs["plain"].attempts[0].log_tail == "printed by a start hook\nprinted by an end hook"
    told = jobs["beset"].attempts[0].log_tail or ""
    for words in ("start_fails ended with ValueError", "start_hangs ended with HookTimeout", "in start_hangs"):
        assert words in told
    for words in ("end_fails ended with SystemExit", "end_hangs ended with HookTimeout", "ValueError: of the start"):
        assert told.count(words) == 1
    assert "in end_hangs" in (jobs["unwritten_and_hangs_in_c"].attempts[0].log_tail or "")
    assert '"said": "sqljobs: job 8 ran, but its end could not be written: away"' in supervisors.log()
    logged = Path(f"{side}.log").read_text().splitlines()
    assert sorted(logged) == sorted(f"of job {job.id}" for name, job in jobs.items() if "end 2" in RAN[name][2])
