"""`sqljobs enqueue`: one job from options, or a batch of JSON lines in one transaction."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

import click

from sqljobs.schema import values
from sqljobs.schema.enqueue import Enqueued
from sqljobs.schema.errors import InvalidJob, UnknownJob, UnknownParent
from sqljobs.schema.lost_commits import SettledEnqueue
from sqljobs.schema.specs import JobSpec
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.job_input import JobTypes, known_type, parse_batch, read_args, read_source, read_uses
from sqljobs.supervisor.cli.output import print_json, print_lines
from sqljobs.supervisor.handler_modules import load_handlers
from sqljobs.worker_runtime.enqueue import check_args
from sqljobs.worker_runtime.registry import defaults_of


@click.command("enqueue")
@click.argument("job_type", metavar="TYPE", required=False)
@click.option("--args", metavar="JSON|@FILE|-", help="All arguments, as a JSON object.")
@click.option("--arg", "pairs", metavar="NAME=VALUE", multiple=True, help="One argument; repeat it for more.")
@click.option("--after", type=int, metavar="ID", multiple=True, help="Wait until this job is done; repeatable.")
@click.option("--after-any", type=int, metavar="ID", multiple=True, help="Wait until this job has ended, however.")
@click.option("--after-failed", type=int, metavar="ID", multiple=True, help="Run only if one of these ends badly.")
@click.option("--parent", type=int, metavar="ID", help="Make it a member of this container.")
@click.option("--container", is_flag=True, default=None, help="It holds other jobs, and never runs itself.")
@click.option("--group", metavar="NAME", help="Whose job it is, for the fair share.")
@click.option("--weight", type=int, metavar="N", help="The group's weight in the fair share.")
@click.option("--priority", type=int, metavar="N", help="Within its group: -1000 to 1000, higher first.")
@click.option("--run-after", metavar="WHEN", help="90s, 2h, 7d from now, or a time with offset.")
@click.option("--key", metavar="KEY", help="At most one open job has this type and key.")
@click.option("--on-conflict", type=click.Choice(values.ON_CONFLICT), help="When the key is taken.")
@click.option("--key-for", type=click.Choice(values.KEY_FOR), help="How long the key stays taken.")
@click.option("--max-attempts", type=int, metavar="N", help="Give up after so many.")
@click.option("--timeout", metavar="DURATION", help="Kill an attempt after this long; 0 for never.")
@click.option("--memory", metavar="SIZE", help="Kill an attempt whose processes hold more: 500MB, 2GiB.")
@click.option("--on-failed", metavar="TYPE", help="Enqueue this type when the job has failed for good.")
@click.option("--use", "uses", metavar="NAME=AMOUNT", multiple=True, help="Of this limit or device; repeatable.")
@click.option("--batch", metavar="FILE|-", help="JSON lines: ref, type, args and options, in one transaction.")
@click.option("--handlers", multiple=True, metavar="MODULE_OR_FILE", help="Check types and arguments against these.")
@click.option("--app-dir", default=".", metavar="DIR", help="Where handlers modules are looked for.")
@common_options
@pass_call
def enqueue(
    call: Call,
    /,
    job_type: str | None,
    args: str | None,
    pairs: tuple[str, ...],
    batch: str | None,
    handlers: tuple[str, ...],
    app_dir: str,
    **given: Any,
) -> int:
    """Enqueue a job and print its id; or a batch, and print the ids in the order of its lines."""
    options = {name: value for name, value in given.items() if value not in (None, ())}
    if "uses" in options:
        options["uses"] = read_uses(options["uses"])
    refs: Sequence[str | None]
    if batch is not None:
        if job_type is not None or args is not None or pairs or options:
            raise InvalidJob("--batch takes types, arguments and options from its lines: leave them out here")
        refs, specs = parse_batch(read_source(batch, "--batch"), _known(handlers, app_dir))
    else:
        if job_type is None:
            raise InvalidJob("enqueue what? Name a TYPE, or a file of JSON lines with --batch")
        refs, specs = [None], [_spec(job_type, args, pairs, options, _known(handlers, app_dir))]
    with call.database() as database:
        enqueued = _insert(database, specs, refs, awaits_child=batch is None)
    if not call.as_json:
        print_lines([one.id for one in enqueued])
    elif batch is None:
        print_json({"id": enqueued[0].id, "created": enqueued[0].created})
    else:
        print_json(
            [{"ref": ref, "id": one.id, "created": one.created} for ref, one in zip(refs, enqueued, strict=True)]
        )
    return 0


def _known(handlers: Sequence[str], app_dir: str) -> JobTypes:
    if not handlers:
        return None
    with redirect_stdout(sys.stderr):  # what a module prints when imported is not our answer
        return load_handlers(handlers, app_dir=app_dir)


def _spec(
    job_type: str, args: str | None, pairs: Sequence[str], options: Mapping[str, Any], known: JobTypes
) -> JobSpec:
    values.check_name("type", job_type)
    handler = None if options.get("container") else known_type(job_type, known)
    return JobSpec(job_type, read_args(args, pairs, handler), **options)


def _insert(
    database: Database, specs: Sequence[JobSpec], refs: Sequence[str | None], *, awaits_child: bool
) -> list[Enqueued]:
    call = SettledEnqueue(specs, defaults_of, check_args, awaits_child=awaits_child, refs=refs)
    try:
        return database.transaction("enqueue", call.work, settle=call.settle)
    except UnknownParent:
        raise
    except UnknownJob as error:
        raise InvalidJob(f"{error}; `sqljobs list` shows those there are") from None
