"""Tell supervisors that listen to look at the queue, in the transaction that gives them a reason: a hint, no more.

Nothing may depend on its arrival: polling finds the same, a little later."""

from __future__ import annotations

import hashlib
import re

from sqljobs.schema.configure import configured_schema
from sqljobs.schema.transactions import Transaction

LOOK = ""  # payload of "look at the queue"; any other is a supervisor's word to itself
PLAIN_NAME = re.compile(r"[A-Za-z0-9_]{1,50}")


def channel() -> str:
    """The channel of the tables in force: one for each configured schema, a name that any server takes unquoted or
    quoted, whatever the schema is called."""
    schema = configured_schema()
    if schema is None:
        return "sqljobs"
    if PLAIN_NAME.fullmatch(schema):
        return f"sqljobs_{schema}"
    return f"sqljobs_{hashlib.sha256(schema.encode()).hexdigest()[:32]}"


def wake(tx: Transaction) -> None:
    """When `tx` commits, supervisors look: a job is ready, or an edge is to be checked. Sent once a transaction."""
    if LOOK not in tx.told:
        tx.told.add(LOOK)
        _tell(tx, LOOK)


def echo(tx: Transaction, token: str) -> None:
    """When `tx` commits, `token` comes back to whoever listens, and wakes nobody else."""
    _tell(tx, token)


def _tell(tx: Transaction, payload: str) -> None:
    tx.step("notify")
    tx.dialect.notify(tx.conn, channel(), payload)
