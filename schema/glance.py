"""One statement that says whether there is anything to do: what an idle supervisor asks again and again. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, select

from sqljobs.schema.conditions import is_unset
from sqljobs.schema.dialects.contract import PrefixReading
from sqljobs.schema.lane_statements import lanes_of
from sqljobs.schema.ready import Wanted, in_state
from sqljobs.schema.states import State
from sqljobs.schema.tables import job_deps, job_intents, jobs
from sqljobs.schema.transactions import Transaction


@dataclass(frozen=True)
class Glance:
    """`unchecked`: an edge waits to be looked at. `left`: a transaction has left something to do. `ready`: a wanted job
    may be claimed. `due_in`: seconds until the first scheduled job falls due, by the database's clock; 0 or less: it
    has; None: there is none."""

    unchecked: bool
    left: bool
    ready: bool
    due_in: float | None


def glance(tx: Transaction, wanted: Wanted) -> Glance:
    """Look by index alone, at one row of each kind."""
    row = tx.execute("glance", _looks(tx.dialect.prefix_reading(tx.conn), wanted)).one()
    return Glance(
        unchecked=row.unchecked is not None,
        left=row.left is not None,
        ready=row.ready is not None,
        due_in=None if row.first_due is None else (row.first_due - tx.now).total_seconds(),
    )


@lru_cache(maxsize=64)
def _looks(how: PrefixReading, wanted: Wanted) -> Select[Any]:
    unchecked = select(job_deps.c.depends_on_id).where(is_unset(job_deps.c.checked)).limit(1)
    first_due = select(jobs.c.run_after).where(in_state(State.SCHEDULED)).order_by(jobs.c.run_after).limit(1)
    left = select(job_intents.c.id).order_by(job_intents.c.id).limit(1)
    # Lane by lane, and not row by row: before the first wanted job there may be any number that others want.
    ready = select(lanes_of(how, wanted).limit(1).subquery("lane").c.priority)
    looks = {"unchecked": unchecked, "left": left, "ready": ready, "first_due": first_due}
    return select(*(look.scalar_subquery().label(name) for name, look in looks.items()))
