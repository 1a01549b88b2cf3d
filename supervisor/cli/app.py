"""The group of all commands, and the one place where an exception becomes an exit code."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import click

import sqljobs
from sqljobs.supervisor.cli import (
    acts,
    demo,
    doctor,
    drain,
    enqueue,
    explain,
    hold,
    init,
    limits,
    list_jobs,
    logs,
    run,
    show,
    status,
    wait,
)
from sqljobs.supervisor.cli.call import Call, common_options
from sqljobs.supervisor.cli.failures import INTERRUPTED, report


@click.group("sqljobs", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(sqljobs.__version__, prog_name="sqljobs", message="%(prog)s %(version)s")
@common_options
def cli() -> None:
    """A durable, explainable job queue in the relational database you already have."""


for command in (
    *(init.init, run.run, enqueue.enqueue, list_jobs.list_jobs, show.show, logs.logs, status.status, wait.wait),
    explain.explain,
    *(acts.cancel, acts.retry, acts.skip, hold.hold, hold.release, limits.limit, limits.group, drain.drain),
    *(doctor.doctor, demo.demo),
):
    cli.add_command(command)


def run_command_line(args: Sequence[str]) -> int:
    """Run one command; returns the exit code of the contract. No exception leaves, Ctrl-C included."""
    # The pool logs what goes wrong when it closes a connection, such as Ctrl-C at that moment; where nobody handles it
    # Python prints that on stderr, traceback and all. A handlers module that sets up logging sees it all the same.
    logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())
    call = Call()
    given = list(args)
    try:
        code = cli.main(given, prog_name="sqljobs", standalone_mode=False, obj=call)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:  # noqa: BLE001 - no traceback may reach a user; `report` tells ours apart
        # The parser may have stopped before it came to --json.
        call.as_json |= "--json" in given[: given.index("--") if "--" in given else None]
        return report(error, call)
    return code if isinstance(code, int) else 0
