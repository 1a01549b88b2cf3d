"""Job types: the decorator, the options of each, and which types a set of modules provides."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from sqljobs.schema import values
from sqljobs.schema.errors import BadHandlers, InvalidJob
from sqljobs.schema.outcomes import Backoff, Cause
from sqljobs.schema.specs import Defaults, JobSpec
from sqljobs.worker_runtime.arguments import check_signature, named_arguments
from sqljobs.worker_runtime.child_hooks import forget_hooks

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

OPTIONS = (
    *("group", "weight", "priority", "max_attempts", "timeout", "memory", "uses", "on_failed"),
    *("backoff", "fail_on"),
)


class Handler(Protocol[P, R]):
    """A plain function that is also a job type."""

    __name__: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it here and now, as in a test."""
        ...

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> JobSpec:
        """A job of this type with these arguments, to be enqueued."""
        ...


@dataclass(frozen=True)
class JobType:
    """One registered type: its function and what applies where a job was given nothing of its own."""

    name: str
    function: Callable[..., Any]
    defaults: Defaults = field(default_factory=Defaults)
    backoff: Backoff = field(default_factory=Backoff)
    fail_on: tuple[type[BaseException] | str, ...] = ()

    @property
    def module(self) -> str:
        return self.function.__module__

    @property
    def place(self) -> tuple[str, int]:
        """File and line of the function: tells a second registration from a second import."""
        code = _as_written(self.function).__code__
        return code.co_filename, code.co_firstlineno

    def here(self) -> JobType:
        """The same with its function in this process. Raises `BadHandlers` where that cannot be imported."""
        return self

    def is_fatal(self, cause: Cause, error: BaseException | None = None) -> bool:
        """Whether `fail_on` names this ending."""
        return any(cause.value == item if isinstance(item, str) else isinstance(error, item) for item in self.fail_on)


def _as_written(function: Callable[..., Any]) -> FunctionType:
    """The function below its decorators, which share one code for all that they wrap."""
    inner = inspect.unwrap(function)
    return cast(FunctionType, inner if isinstance(inner, FunctionType) else function)


_by_module: dict[str, dict[str, JobType]] = {}
_latest: dict[str, JobType] = {}


@overload
def handler(function: Callable[P, R], /) -> Handler[P, R]: ...
@overload
def handler(name: str | None = None, /, **options: Any) -> Callable[[Callable[P, R]], Handler[P, R]]: ...
def handler(target: Any = None, /, **options: Any) -> Any:
    """Declare a job type: `@handler`, or `@handler("report.render", timeout="40h", max_attempts=5, ...)`.

    The function stays a plain function and gets `.spec(...)`. Options: group, weight, priority, max_attempts, timeout,
    memory (what all its processes may hold together: bytes, `2GiB`), uses (amounts by name of limit or device),
    backoff (`exponential(...)`), fail_on (exception classes and causes that are not retried) and on_failed (a type: one
    such job is enqueued, with `{job_id, type, group, cause, error}`, when one of this type has failed for good).
    Raises `TypeError` for an unknown option, `InvalidJob` for a bad value, `BadHandlers` for a name used twice."""
    if isinstance(target, str) or target is None:
        return lambda function: _register(function, target, options)
    return _register(target, None, options)


def _register(function: Any, name: str | None, options: Mapping[str, Any]) -> Any:
    if not isinstance(function, FunctionType):
        raise TypeError(f"@sqljobs.handler goes on a function, not on a {type(function).__name__}")
    check_signature(function)
    job_type = _with_options(JobType(values.check_name("type", name or function.__name__), function), options)
    _refuse_twice(job_type)
    _by_module.setdefault(job_type.module, {})[job_type.name] = job_type
    _latest[job_type.name] = job_type
    cast(Any, function).spec = lambda *args, **kwargs: JobSpec(job_type.name, named_arguments(function, args, kwargs))
    return function


def _with_options(job_type: JobType, options: Mapping[str, Any]) -> JobType:
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"unknown option {name!r} of handler {job_type.name!r}{values.nearest(name, OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    checks: dict[str, Callable[[Any], Any]] = {
        "group": lambda value: values.check_name("group", value),
        "weight": lambda value: values.check_count("weight", value),
        "priority": values.check_priority,
        "max_attempts": lambda value: values.check_count("max_attempts", value),
        "timeout": values.check_timeout,
        "uses": values.check_uses,
        "memory": values.check_memory,
        "on_failed": lambda value: values.check_name("on_failed", value),
    }
    defaults = replace(
        job_type.defaults, **{name: check(given[name]) for name, check in checks.items() if name in given}
    )
    backoff = given.get("backoff", job_type.backoff)
    if not isinstance(backoff, Backoff):
        raise InvalidJob("backoff must be sqljobs.exponential(first=..., cap=...)")
    return replace(job_type, defaults=defaults, backoff=backoff, fail_on=_check_fail_on(given.get("fail_on", ())))


def _check_fail_on(items: Any) -> tuple[type[BaseException] | str, ...]:
    listed = items if isinstance(items, (tuple, list, set, frozenset)) else (items,)
    for item in listed:
        if isinstance(item, type) and issubclass(item, BaseException):
            continue
        if not isinstance(item, str) or item not in tuple(Cause):
            hint = values.nearest(str(item), [cause.value for cause in Cause])
            raise InvalidJob(f"fail_on takes exception classes and causes, not {item!r}{hint}")
    return tuple(listed)


def _refuse_twice(job_type: JobType) -> None:
    former = _by_module.get(job_type.module, {}).get(job_type.name)
    if former is None or "<locals>" in former.function.__qualname__ + job_type.function.__qualname__:
        return
    file, line = former.place
    if file == job_type.place[0] and line != job_type.place[1] and not _is_reloaded(former):
        raise BadHandlers(
            f"the job type {job_type.name!r} is registered twice in {file}: lines {line} and"
            f" {job_type.place[1]}; give one of them another name"
        )


def _is_reloaded(former: JobType) -> bool:
    """Whether the former registration is of an earlier run of its module."""
    module = sys.modules.get(former.module)
    return module is None or _as_written(former.function).__globals__ is not module.__dict__


def forget_module(name: str) -> None:
    """The module is about to be run again: what it registered before does not count."""
    _by_module.pop(name, None)
    forget_hooks(name)


def lookup(name: str) -> JobType | None:
    """The type registered last under `name` in this process."""
    return _latest.get(name)


def registered() -> dict[str, JobType]:
    """All types of this process, by name."""
    return dict(_latest)


def defaults_of(name: str) -> Defaults:
    """What applies to a job of this type; the general defaults where the type is not known here."""
    job_type = _latest.get(name)
    return job_type.defaults if job_type is not None else Defaults()


def provided_by(modules: Iterable[ModuleType]) -> dict[str, JobType]:
    """The types that these modules register, define or import, packages and their loaded submodules included.

    Raises `BadHandlers` when two different functions have one name."""
    provided: dict[str, JobType] = {}
    for module_name in _reachable(modules):
        for job_type in _by_module.get(module_name, {}).values():
            other = provided.setdefault(job_type.name, job_type)
            if other.place != job_type.place:
                raise BadHandlers(
                    f"the job type {job_type.name!r} is registered twice, in "
                    + " and ".join(sorted(f"{file} (line {line})" for file, line in (other.place, job_type.place)))
                    + ": give one of them another name"
                )
    return provided


def _reachable(modules: Iterable[ModuleType]) -> list[str]:
    """Names of these modules, of those in their namespaces, and of those that define functions found there.

    Every handlers module imports sqljobs: what lies below that (the demo's job types) is not of its providing."""
    pending = list(modules)
    seen: dict[str, None] = {}
    while pending:
        module = pending.pop()
        if module.__name__ in seen:
            continue
        seen[module.__name__] = None
        for value in list(vars(module).values()):
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] != "sqljobs":
                pending.append(value)
            elif isinstance(value, FunctionType) and value.__module__ in _by_module:
                owner = sys.modules.get(value.__module__)
                if owner is not None:
                    pending.append(owner)
    return list(seen)
