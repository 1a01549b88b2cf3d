"""The state of the whole queue in a few statements: the fields of `status --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select

from sqljobs.schema.conditions import is_set
from sqljobs.schema.control_tables import job_groups
from sqljobs.schema.holds import read_holds
from sqljobs.schema.job_info import as_plain
from sqljobs.schema.limits_list import list_limits
from sqljobs.schema.migrate import version_of
from sqljobs.schema.progress import read_progress
from sqljobs.schema.ready import in_state
from sqljobs.schema.states import State
from sqljobs.schema.supervisors import SeenSupervisor, read_supervisors
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Transaction


def read_status(tx: Transaction) -> dict[str, Any]:
    """Counts by state, groups with work, the oldest ready job, limits, holds and more. Plain JSON values."""
    counts = tx.execute("states", select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state))
    states = dict.fromkeys((state.value for state in State), 0) | {row.state: row.jobs for row in counts}
    oldest = tx.execute("oldest", select(func.min(jobs.c.created_at)).where(in_state(State.READY))).scalar_one()
    supervisors = sorted(read_supervisors(tx), key=lambda row: row.is_gone)  # else the oldest first
    children = _children(tx)
    return {
        "schema_version": version_of(tx.conn),
        "database": tx.conn.dialect.name,
        "wakeup": "listen" if any(row.wakeup == "listen" and not row.is_gone for row in supervisors) else "poll",
        "states": states,
        "groups": _groups(tx),
        "oldest_ready_seconds": None if oldest is None else max(0.0, (tx.now - oldest).total_seconds()),
        "limits": list_limits(tx),
        "holds": [as_plain(hold.as_dict()) for hold in read_holds(tx).listed],
        "supervisors": [_supervisor(row, children.get(row.owner, 0)) for row in supervisors],
        "progress": [as_plain(job) for job in read_progress(tx)],
    }


def _groups(tx: Transaction) -> Sequence[dict[str, Any]]:
    ready = tx.execute(
        "ready_groups",
        select(jobs.c.group_key, func.count().label("jobs"), func.max(jobs.c.weight).label("weight"))
        .where(in_state(State.READY))
        .group_by(jobs.c.group_key),
    ).all()
    flying = tx.execute(
        "flying_groups",
        select(jobs.c.group_key, func.count().label("jobs"), func.max(jobs.c.weight).label("weight"))
        .where(is_set(jobs.c.in_flight))
        .group_by(jobs.c.group_key),
    ).all()
    set_weights = {row.group_key: row.weight for row in tx.execute("weights", select(job_groups))}
    weights = {row.group_key: row.weight for row in (*flying, *ready)} | set_weights
    waiting = {row.group_key: row.jobs for row in ready}
    running = {row.group_key: row.jobs for row in flying}
    return [
        {"group": name, "ready": waiting.get(name, 0), "in_flight": running.get(name, 0), "weight": weights[name]}
        for name in sorted(waiting.keys() | running.keys())
    ]


def _children(tx: Transaction) -> dict[str, int]:
    rows = tx.execute(
        "children",
        select(jobs.c.lease_owner, func.count().label("jobs"))
        .where(is_set(jobs.c.in_flight))
        .group_by(jobs.c.lease_owner),
    )
    return {row.lease_owner: row.jobs for row in rows}


def _supervisor(row: SeenSupervisor, children: int) -> dict[str, Any]:
    shown = {
        "name": row.name,
        "host": row.host,
        "pid": row.pid,
        "state": "gone" if row.is_gone else row.state,
        "slots": row.slots,
        "children": children,
        "types": row.types,
        "heartbeat_age_seconds": row.heartbeat_age_seconds,
        "wakeup": "poll" if row.is_gone else row.wakeup,
        "devices": row.devices,
    }
    plain = as_plain(shown)
    assert isinstance(plain, dict)
    return plain
