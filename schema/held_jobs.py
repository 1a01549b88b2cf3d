"""What to say of jobs that a hold keeps from starting, for lists and for one. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqljobs.schema.families import find_around
from sqljobs.schema.holds import Holds, read_holds
from sqljobs.schema.job_info import StateReason
from sqljobs.schema.states import State
from sqljobs.schema.transactions import Transaction

# Blocked and scheduled jobs have a reason that their own rows show, and that comes first.
MAY_SHOW_HOLD = frozenset({State.READY.value, State.WAITING.value})


def held_reasons(tx: Transaction, rows: Sequence[Any]) -> dict[int, StateReason]:
    """Job -> the hold that it is under, for those of `rows` (id, type, group_key, uses, parent_id, state) that wait for
    nothing else: its own by id, type, group or limit, that of a container around it, or that of all jobs."""
    waiting = [row for row in rows if row.state in MAY_SHOW_HOLD]
    holds = read_holds(tx) if waiting else Holds()
    if not holds:
        return {}
    inside = [row.id for row in waiting if row.parent_id is not None] if holds.may_hold_containers else []
    around = find_around(tx, inside, lambda row: bool(holds.on(row.id, row.type, row.group_key)))
    found: dict[int, StateReason] = {}
    for row in waiting:
        own = holds.on(row.id, row.type, row.group_key)
        own += [holds.limits[name] for name in row.uses or () if name in holds.limits]
        outer = around.get(row.id)
        if own:
            found[row.id] = StateReason("hold", own[0].text, until=own[0].until)
        elif outer is not None:
            hold = holds.on(outer.id, outer.type, outer.group_key)[0]
            text = f"waits with container {outer.id}: {hold.text}"
            found[row.id] = StateReason("hold", text, job_id=outer.id, until=hold.until)
        elif holds.of_all is not None:
            found[row.id] = StateReason("hold", holds.of_all.text, until=holds.of_all.until)
    return found
