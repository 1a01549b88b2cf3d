"""`sqljobs explain`: why is this job not running, the reason to remove first in front."""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.console import RenderableType
from rich.text import Text

from sqljobs.schema.explain import Explained
from sqljobs.schema.explain import explain as explain_job
from sqljobs.schema.snapshots import read_snapshot
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.output import STATE_STYLES, clean, print_json, print_rich
from sqljobs.supervisor.cli.selection import job_id as parse_id

REASON_BYTES = 2000


@click.command("explain")
@click.argument("job_id", type=parse_id, metavar="ID")
@common_options
@pass_call
def explain(call: Call, job_id: int) -> int:
    """Say why a job is not running, and what would change that."""
    with call.database() as database:
        found = read_snapshot(database, "explain", lambda tx: explain_job(tx, job_id))
    if call.as_json:
        print_json(found.as_json())
    else:
        print_rich(*_parts(found))
    return 0


def _parts(found: Explained) -> Iterator[RenderableType]:
    state = (found.state, STATE_STYLES.get(found.state, ""))
    yield Text.assemble((f"Job {found.id}  ", "bold"), state)
    if not found.reasons:
        yield Text("Nothing keeps it: it may start at the next tick of a supervisor.")
    alone = len(found.reasons) == 1
    for number, reason in enumerate(found.reasons, 1):
        text = clean(reason.text, REASON_BYTES)
        head = "" if alone else f"{number}. "
        yield Text.assemble(head, (reason.code, "bold"), f": {text[:1].upper()}{text[1:]}.")
