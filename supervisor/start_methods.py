"""How a child comes to be, and to have its handlers: a fork of a process that has them, a fork that imports them, or a
fresh interpreter. The one place that knows the difference (docs/start_methods.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Engine

from sqljobs.schema.claim import Lease
from sqljobs.schema.errors import InvalidJob
from sqljobs.supervisor.child_process import Child, ForkFailed
from sqljobs.supervisor.children import Children
from sqljobs.supervisor.handler_modules import (
    Handlers,
    by_name,
    load_handlers,
    load_preloaded,
    narrowed,
    refuse_outgrown,
)
from sqljobs.supervisor.inquiry import ask
from sqljobs.supervisor.interpreters import DUMP_FD, OUTPUT_FD, STOP_FD, interpreter
from sqljobs.supervisor.liveness import other_threads
from sqljobs.supervisor.settings import Settings
from sqljobs.worker_runtime.child import ChildStart, run_child
from sqljobs.worker_runtime.descriptions import Load, described, description_of
from sqljobs.worker_runtime.post_fork import known_engines
from sqljobs.worker_runtime.process_mark import VARIABLE, mark_of, marked
from sqljobs.worker_runtime.registry import JobType


class StartMethod(Protocol):
    """`job_types`: what this process knows of the handlers. `forks`: whether a child begins as a copy of this process,
    which must have no other threads then, and no file of SQLite's open; `engines`: what it would inherit."""

    @property
    def job_types(self) -> Mapping[str, JobType]: ...
    @property
    def engines(self) -> Sequence[Engine]: ...
    @property
    def forks(self) -> bool: ...

    def threads_in_the_way(self) -> list[str]:
        """Names of this process's threads that keep it from starting children now."""
        ...

    def start(self, children: Children[int], lease: Lease, given: ChildStart) -> Child[int]:
        """Start the child of `lease`. Raises `ForkFailed`, or `ThreadsAlive`, with nothing left behind."""
        ...


def start_method(
    url_or_engine: str | Engine, handlers: Handlers | Iterable[Handlers], app_dir: str, settings: Settings
) -> StartMethod:
    """What `settings` ask for. Raises `BadHandlers`; `InvalidJob` for an Engine that no other program can be given."""
    if settings.start_method == "spawn" and isinstance(url_or_engine, Engine):
        raise InvalidJob(
            "start_method='spawn' needs the database's URL, not an Engine, which a fresh interpreter cannot be given"
        )
    if settings.preload:
        return Forked(load_preloaded(handlers, app_dir=app_dir, only=settings.only_types), known_engines())
    source = Source(by_name(handlers), os.path.abspath(app_dir))
    job_types = source.described(settings.only_types)
    if settings.start_method == "fork":
        return Forked(job_types, known_engines())
    return Spawned(job_types, source, settings.answer_seconds)


@dataclass(frozen=True)
class Source:
    """Where another process finds the handlers."""

    handlers: Sequence[str]
    app_dir: str

    def described(self, only: Sequence[str]) -> dict[str, JobType]:
        """The types `only`, as a process tells that imports them once for it. Raises `BadHandlers`."""
        told = ask("handlers", asdict(self), doing="importing the handlers")
        load: Load = partial(load_handlers, self.handlers, app_dir=self.app_dir)
        job_types = narrowed({one["name"]: described(one, load) for one in told["types"]}, only)
        refuse_outgrown(job_types, told["resident"])
        return job_types


@dataclass(frozen=True)
class Forked:
    """A child is a copy of this process, and imports what this process has not (`JobType.here`)."""

    job_types: Mapping[str, JobType]
    engines: Sequence[Engine]
    forks = True

    def threads_in_the_way(self) -> list[str]:
        return other_threads()

    def start(self, children: Children[int], lease: Lease, given: ChildStart) -> Child[int]:
        return children.spawn(lease.job_id, partial(run_child, lease, given))


@dataclass(frozen=True)
class Spawned:
    """A child is a fresh interpreter, for what cannot be forked."""

    job_types: Mapping[str, JobType]
    source: Source
    answer_seconds: float
    engines = ()
    forks = False

    def threads_in_the_way(self) -> list[str]:
        return []

    def start(self, children: Children[int], lease: Lease, given: ChildStart) -> Child[int]:
        told: dict[str, Any] = {
            **asdict(self.source),
            "lease": asdict(lease),
            "type": description_of(given.job_type),
            "url": given.database.engine.url.render_as_string(hide_password=False),
            "answer_seconds": self.answer_seconds,
            "reconnect_for": given.reconnect_for,
            "device_env": given.device_env,
        }
        assert given.output_fd is not None
        output = given.output_fd
        lines = {STOP_FD: given.request.descriptor, DUMP_FD: given.dump.descriptor, OUTPUT_FD: output}
        # Marked from its first moment, and heard: before it can settle in it has to load us.
        variables = {**given.device_env, VARIABLE: marked(mark_of(lease.fence))}
        try:
            with interpreter("job", told, variables=variables, descriptors={**lines, 1: output, 2: output}) as program:
                return children.execute(lease.job_id, program)
        except ForkFailed:
            raise
        except OSError as error:
            raise ForkFailed(error.errno, f"cannot start a child process: {error.strerror}") from error
