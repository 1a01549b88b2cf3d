"""Open the supervisor's database and write this process's row, after clearing away those of the dead."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping

from sqlalchemy import Engine

from sqljobs.schema import migrate
from sqljobs.schema.engine import is_memory, parse_url
from sqljobs.schema.errors import InvalidJob, NotInitialised
from sqljobs.schema.supervisors import Registration, SeenSupervisor, mark_gone, read_supervisors, register
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.liveness import Liveness, boot_id, own_process, probe
from sqljobs.supervisor.own_engine import own_engine
from sqljobs.supervisor.settings import Settings
from sqljobs.worker_runtime.registry import JobType

_STARTS_OF_THIS_PROGRAM: set[str] = set()


def backend_of(url_or_engine: str | Engine) -> str:
    """The kind of database: `sqlite`, `postgresql`, `mysql` or `mariadb`. Raises `InvalidJob`."""
    return (
        url_or_engine.dialect.name if isinstance(url_or_engine, Engine) else parse_url(url_or_engine).get_backend_name()
    )


def open_database(url_or_engine: str | Engine, *, answer_seconds: float) -> Database:
    """The database of a supervisor, checked: reachable, new enough, tables of this version.

    `answer_seconds`: how long one call may keep the loop from its other work, as far as that is in our hands.

    Raises `InvalidJob` for one that only this process could see, `DatabaseUnavailable`, `NotInitialised`,
    `SchemaOutdated`."""
    if isinstance(url_or_engine, Engine):
        engine = url_or_engine
    else:
        engine = own_engine(url_or_engine, answer_seconds=answer_seconds)
    if is_memory(engine.url):
        raise InvalidJob("a supervisor needs a database that its children can open, too: name a SQLite file")
    refuse_missing_file(engine)
    database = Database.of(engine, busy_for=answer_seconds, must_exist=True)
    try:
        migrate.check_server(database)
        migrate.check(database)
    finally:
        if engine is not url_or_engine:
            engine.dispose()  # where the start is refused after this, nobody would close what the pool has
    return database


def refuse_missing_file(engine: Engine) -> None:
    """SQLite would create the file; only `init` and `demo` may. Raises `NotInitialised`."""
    name = engine.url.database
    is_file = engine.dialect.name == "sqlite" and name and not name.startswith("file:") and not is_memory(engine.url)
    if is_file and not os.path.exists(str(name)):
        raise NotInitialised(f"there is no file {name}: run `sqljobs init`, or check --url")


def register_this_process(database: Database, settings: Settings, job_types: Mapping[str, JobType]) -> tuple[str, str]:
    """Write the row of this start; returns the name that it got, and its id. Raises `DatabaseUnavailable`, and
    `InvalidJob` for a unit of a device that another supervisor here has, too."""
    process = own_process()
    _retire_the_dead(database, settings)
    wanted = Registration(
        id=uuid.uuid4().hex,
        name=settings.name,
        host=socket.gethostname(),
        boot_id=process.boot_id,
        pid=process.pid,
        start_ticks=process.start_ticks,
        slots=settings.slots,
        types=sorted(job_types),
        ttl=settings.ttl,
        heartbeat=settings.heartbeat,
        devices=settings.devices.published(),
        type_uses={name: uses for name in sorted(job_types) if (uses := job_types[name].defaults.uses)},
        only_groups=settings.only_groups,
    )
    _STARTS_OF_THIS_PROGRAM.add(wanted.id)
    name = register(database, wanted)
    try:
        _refuse_shared_units(database, wanted)
    except InvalidJob:
        database.transaction("leave", lambda tx: mark_gone(tx, [wanted.id]), settle=lambda _: None)
        raise
    return name, wanted.id


def _refuse_shared_units(database: Database, wanted: Registration) -> None:
    """Each counts its own jobs, so that two would give one unit to two of them. After the registration: of two that
    start at the same time none sees nothing.

    Another pid namespace is another machine here: a container numbers its units for itself."""
    for row in database.read("look", lambda tx: read_supervisors(tx, living=True)):
        if row.id == wanted.id or row.boot_id != wanted.boot_id or is_over(row.id, row.pid, row.start_ticks):
            continue
        for name, device in (wanted.devices or {}).items():
            if shared := sorted({*device["units"]} & {*(row.devices or {}).get(name, {}).get("units", ())}):
                raise InvalidJob(
                    f"the supervisor {row.name!r} on this machine has {name} {', '.join(shared)}, too: give each one"
                    f" units of its own (--device {name}=...), or stop the other"
                )


def _retire_the_dead(database: Database, settings: Settings) -> None:
    """Free the names of supervisors that are over: seen dead on this box, or silent for long elsewhere."""
    living = database.read("look", lambda tx: read_supervisors(tx, living=True))
    dead = [row.id for row in living if _is_dead(row, settings)]
    if dead:
        database.transaction("retire", lambda tx: mark_gone(tx, dead), settle=lambda _: None)


def is_over(supervisor_id: str, pid: int, start_ticks: int) -> bool:
    """Whether this start of a supervisor, of this boot, is over: its process is dead, or is ours and has become another
    program since (`exec`), which knows nothing of it."""
    own = own_process()
    if (pid, start_ticks) == (own.pid, own.start_ticks):
        return supervisor_id not in _STARTS_OF_THIS_PROGRAM
    return probe(pid, start_ticks) in (Liveness.GONE, Liveness.ZOMBIE)


def _is_dead(row: SeenSupervisor, settings: Settings) -> bool:
    if row.boot_id == boot_id():
        return is_over(row.id, row.pid, row.start_ticks)
    return row.heartbeat_age_seconds > row.ttl + 2 * settings.heartbeat
