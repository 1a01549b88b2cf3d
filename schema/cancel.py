"""Cancel jobs: at once where nobody has claimed them, else as a request that the attempt cannot outrun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqljobs.schema.ends import children_of, lock_rows
from sqljobs.schema.errors import Refused, UnknownJob
from sqljobs.schema.families import open_descendants
from sqljobs.schema.intents import leave
from sqljobs.schema.members import cancel_rows, roll_up
from sqljobs.schema.settling import settle
from sqljobs.schema.snapshots import sees_old_rows
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.transactions import Transaction


def cancel(tx: Transaction, ids: Sequence[int], *, now: bool = False) -> list[int]:
    """Cancel all of `ids`, or none; returns those that this call changed, then the open descendants of containers.

    An unclaimed job is `cancelled` when the transaction commits. A claimed one can from then on end only as
    `cancelled`; its supervisor kills it within a heartbeat, with `now` by SIGKILL at once. A container takes no new
    members, and ends with the last of those that it has. A job that is cancelled already stays so. Raises `UnknownJob`,
    and `Refused` for a job that ended otherwise."""
    wanted = sorted(set(ids))
    # A container and what is in it in one statement, in order of ids: who ends a member holds that row alone.
    inside = open_descendants(tx, wanted)
    rows = {row.id: row for row in lock_rows(tx, "lock", {*wanted, *inside})}
    _refuse(wanted, rows)
    # What came into a container between our look and our lock; nothing can come now.
    rows |= {row.id: row for row in lock_rows(tx, "lock", set(open_descendants(tx, wanted)) - rows.keys())}
    still_open = [row for row in rows.values() if State(row.state) not in FINAL]
    ended, containers = cancel_rows(tx, still_open, now=now)
    empty = lock_rows(tx, "lock", [job_id for job_id in containers if rows[job_id].open_children == 0])
    settle(tx, *ended, *roll_up(tx, empty, {row.id: children_of(row) for row in empty}))
    # A caller's snapshot may not show the newest members, and followers; supervisors see to those.
    leave(tx, "members", [job_id for job_id in containers if rows[job_id].open_children])
    if ended and sees_old_rows(tx):
        leave(tx, "edges", [end.job_id for end in ended])
    changed = [row.id for row in still_open]
    return [job_id for job_id in wanted if job_id in changed] + [job_id for job_id in changed if job_id not in wanted]


def _refuse(wanted: Sequence[int], rows: dict[int, Any]) -> None:
    for job_id in wanted:
        if job_id not in rows:
            raise UnknownJob(f"there is no job {job_id}")
        if rows[job_id].state in (State.DONE.value, State.FAILED.value):
            raise Refused(f"job {job_id} cannot be cancelled: it is {rows[job_id].state}")
