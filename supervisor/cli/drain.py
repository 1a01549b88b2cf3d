"""`sqljobs drain`: ask a supervisor, wherever it runs, to claim nothing more and to end."""

from __future__ import annotations

import click

from sqljobs.schema.supervisors import SeenSupervisor, request_drain
from sqljobs.schema.transactions import Transaction
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.output import print_json, print_lines


@click.command("drain")
@click.argument("supervisor")
@common_options
@pass_call
def drain(call: Call, supervisor: str) -> int:
    """Let a supervisor end with its children.

    SUPERVISOR, a name of `sqljobs status`, claims nothing more from its next heartbeat on, lets its children end,
    however long that takes, and leaves."""
    with call.database() as database:

        def ask(tx: Transaction) -> list[SeenSupervisor]:
            return request_drain(tx, supervisor)

        # Asking twice is asking once, so a COMMIT of unknown outcome is settled by asking again.
        asked = database.transaction("drain", ask, settle=ask)
    if call.as_json:
        print_json([{"name": row.name, "host": row.host, "pid": row.pid, "state": row.state} for row in asked])
        return 0
    print_lines(
        f"{row.name} (pid {row.pid} on {row.host}) "
        + (
            "drains from its next heartbeat on: it claims nothing more and ends with its last child"
            if row.state == "running"
            else f"is {row.state} already"
        )
        for row in asked
    )
    return 0
