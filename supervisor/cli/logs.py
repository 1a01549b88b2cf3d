"""`sqljobs logs`: what a job has printed, and with --follow what it prints, as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import click

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.printed import Printed, read_printed
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.live_output import CannotRead, LiveOutput, open_live
from sqljobs.supervisor.cli.output import clean, pause_while_read, print_json, write, write_printed
from sqljobs.supervisor.cli.selection import job_id as parse_id
from sqljobs.worker_runtime.wait import PatientLook

READ_SECONDS = 0.1
LOOK_SECONDS = 0.5
# From the end of an attempt to its evidence: reaping, killing what it left, one transaction.
EVIDENCE_SECONDS = 10.0


@click.command("logs")
@click.argument("job_id", type=parse_id, metavar="ID")
@click.option("--follow", is_flag=True, help="Go on with what the job prints, until it ends.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt, not of the last one.")
@common_options
@pass_call
def logs(call: Call, job_id: int, follow: bool, attempt: int | None) -> int:
    """Show what is kept of what an attempt of a job has printed: the last one's, unless another is named."""
    if follow and (call.as_json or attempt is not None):
        other = "--json" if call.as_json else "--attempt"
        raise click.UsageError(f"--follow and {other} exclude each other: give one of them")
    with call.database() as database:
        reader = PatientLook(database)

        def look(attempt: int | None = None) -> Printed:
            return reader(lambda tx: read_printed(tx, job_id, attempt))

        if attempt is not None and attempt > (latest := look(attempt).latest):
            raise InvalidJob(f"job {job_id} has no attempt {attempt}: its last one is {latest}")
        if follow:
            _follow(job_id, look)
        elif call.as_json:
            printed, text = _kept(job_id, look, lambda line: None, attempt)
            print_json({"id": job_id, "attempt": printed.attempt or None, "ended": printed.ended, "text": text})
        else:
            _, text = _kept(job_id, look, _tell, attempt)
            if text is not None:
                write_printed(_whole_lines(text))
    return 0


def _tell(line: str) -> None:
    write(f"sqljobs: {clean(line)}\n", to_stderr=True)


def _kept(
    job_id: int, look: Callable[..., Printed], tell: Callable[[str], None], attempt: int | None
) -> tuple[Printed, str | None]:
    """This attempt, or the last one, and what is kept of its output."""
    printed = look(attempt)
    if not printed.attempt:
        tell(f"job {job_id} has not run yet: it is {printed.state}")
        return printed, None
    if not printed.ended and printed.pid is not None:
        try:
            with closing(open_live(job_id, printed)) as live:
                return printed, "".join(live.rest()) + live.end()
        except CannotRead as reason:
            if not (printed := look(printed.attempt)).ended:
                tell(f"{reason}; when attempt {printed.attempt} has ended, its end is shown here")
                return printed, None
    if printed.ended:
        printed = _with_evidence(look, printed)
    if printed.log_tail is None:
        tell(f"attempt {printed.attempt} of job {job_id} has printed nothing")
    return printed, printed.log_tail


def _with_evidence(look: Callable[..., Printed], printed: Printed) -> Printed:
    until = time.monotonic() + EVIDENCE_SECONDS
    while not printed.reaped and time.monotonic() < until and pause_while_read(READ_SECONDS):
        printed = look(printed.attempt)
    return printed


def _whole_lines(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


def _follow(job_id: int, look: Callable[..., Printed]) -> None:
    printed, attempt = look(), 0
    if not printed.latest and printed.more_may_come:
        _tell(f"job {job_id} has not run yet: it is {printed.state}; waiting for it")
    while True:
        while printed.latest == attempt and printed.more_may_come:
            if not pause_while_read(LOOK_SECONDS):
                return
            printed = look()
        if printed.latest == attempt:
            if not attempt:
                _tell(f"job {job_id} has never run: it is {printed.state}")
            return
        if attempt:
            _tell(f"attempt {attempt + 1} of job {job_id} begins")
        attempt = attempt + 1 if attempt else printed.latest
        for text in _attempt(job_id, attempt, look):
            if not write_printed(text):
                return
        printed = look()


def _attempt(job_id: int, attempt: int, look: Callable[..., Printed]) -> Iterator[str]:
    """What an attempt prints, until it is over; ends early when nobody reads any more."""
    live: LiveOutput | None = None
    is_told = False
    try:
        while not (printed := look(attempt)).ended:
            if live is None and printed.pid is not None and not is_told:
                try:
                    live = open_live(job_id, printed)
                except CannotRead as reason:
                    is_told = not look(attempt).ended
                    if is_told:
                        _tell(f"{reason}; when attempt {attempt} has ended, its end is shown here")
            until = time.monotonic() + LOOK_SECONDS
            while time.monotonic() < until:
                yield from () if live is None else live.rest()
                if not pause_while_read(READ_SECONDS):
                    return
        printed = _with_evidence(look, printed)
        if live is None:
            yield _whole_lines(printed.log_tail or "")
        else:
            yield from live.rest()
            yield live.end()
    finally:
        if live is not None:
            live.close()
