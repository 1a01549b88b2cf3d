"""Many job rows at once, made by the database itself: enqueueing them would take longer than what they are for."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, String, cast, insert, literal, null, select, text, union_all

from sqljobs.schema.columns import UtcTime
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_attempts, job_deps, jobs

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def numbers(count: int) -> Select[Any]:
    """A SELECT of 0 to `count` - 1, in a form that all four databases know."""
    digits = [
        union_all(*(select(literal(n).label("n")) for n in range(10))).subquery(f"digit{power}")
        for power in range(len(str(count - 1)))
    ]
    value: Any = sum(digit.c.n * 10**power for power, digit in enumerate(digits))
    # Conditions on two at a time, since SQLAlchemy takes a product without any for a mistake.
    linked = [digits[0].c.n <= digit.c.n + 9 for digit in digits[1:]]
    return select(value.label("n")).where(*linked, value < count)


def fill(
    conn: Connection, state: State, count: int, *, run_after: datetime | None = None, groups: int = 1, prefix: str = "g"
) -> None:
    """`count` jobs of type `t` in that state, of the group `prefix`, or in turn of so many whose names begin so."""
    if not count:
        return
    number: Any = numbers(count).subquery("numbers").c.n
    final = state in FINAL
    values: dict[str, Any] = {
        "type": literal("t"),
        "state": literal(state.value),
        "container": literal(False),
        "group_key": literal(prefix) if groups == 1 else literal(prefix).concat(cast(number % groups, String(9))),
        "weight": literal(1),
        "priority": literal(0),
        "key_for": literal("open"),
        "in_flight": literal(False),
        "attempt": literal(1 if final else 0),
        "max_attempts": literal(5),
        "first_max_attempts": literal(5),
        "timeout": literal(86400.0),
        "cancel_now": literal(False),
        "unmet_deps": literal(1 if state is State.BLOCKED else 0),
        "closed_gates": literal(0),
        "open_children": literal(0),
        "done_children": literal(0),
        "failed_children": literal(0),
        "cancelled_children": literal(0),
        "run_after": literal(run_after, UtcTime()) if run_after else null(),
        "created_at": literal(NOW, UtcTime()),
        "updated_at": literal(NOW, UtcTime()),
        "ended_at": literal(NOW, UtcTime()) if final else null(),
        "batch_no": number,
    }
    conn.execute(insert(jobs).from_select(list(values), select(*values.values())))


def fill_queue(conn: Connection, *, others: int, ready: int) -> None:
    """`ready` ready jobs, and of each other state that piles up `others`: done, blocked (on one job), scheduled."""
    fill(conn, State.DONE, others)
    fill(conn, State.BLOCKED, others)
    fill(conn, State.SCHEDULED, others, run_after=NOW + timedelta(days=36_500))
    fill(conn, State.READY, ready)
    if others:
        attempt: dict[str, Any] = {
            "job_id": jobs.c.id,
            "attempt": literal(1),
            "owner": literal("x/1"),
            "supervisor": literal("x"),
            "claimed_at": jobs.c.created_at,
            "ended_at": jobs.c.ended_at,
            "cause": literal("done"),
        }
        done = select(*attempt.values()).where(jobs.c.state == State.DONE.value)
        conn.execute(insert(job_attempts).from_select(list(attempt), done))
        upstream = conn.execute(select(jobs.c.id).where(jobs.c.state == "scheduled").limit(1)).scalar_one()
        edge = {
            "job_id": jobs.c.id,
            "depends_on_id": literal(upstream),
            "kind": literal("ok"),
            "position": literal(0),
            "satisfied": literal(False),
            "checked": literal(True),
        }
        blocked = select(*edge.values()).where(jobs.c.state == State.BLOCKED.value)
        conn.execute(insert(job_deps).from_select(list(edge), blocked))


def refresh_statistics(conn: Connection) -> None:
    """What servers do by themselves some time after a table has changed much."""
    match conn.dialect.name:
        case "postgresql":
            conn.execute(text("ANALYZE"))
        case "mysql" | "mariadb":
            conn.execute(text("ANALYZE TABLE jobs, job_deps, job_attempts")).all()
