"""What a caller asks for: a JobSpec, checked at the door and turned into a Request. No database here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqljobs.schema import values
from sqljobs.schema.columns import JsonText
from sqljobs.schema.durations import Moment, parse_moment
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.graph import KINDS
from sqljobs.schema.payloads import to_json

OPTIONS = (
    *("group", "weight", "priority", "run_after", "after", "after_any", "after_failed", "parent", "container"),
    *("key", "on_conflict", "key_for", "max_attempts", "timeout", "memory", "uses", "on_failed"),
)
INHERITED = ("group", "weight", "priority")
# What a container has no use for: it never runs.
OF_RUNNING = ("run_after", "max_attempts", "timeout", "memory", "uses")


@dataclass(frozen=True, eq=False)
class JobSpec:
    """A job to be: its type, named arguments (None, or a mapping of JSON-able values) and options.

    Specs of one `enqueue_many` name each other in `after`; a spec is equal only to itself."""

    type: str
    args: Mapping[str, Any] | None
    given: Mapping[str, Any]

    def __init__(self, type: str, args: Mapping[str, Any] | None = None, **options: Any) -> None:
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"unknown option {name!r}{values.nearest(name, OPTIONS)}")
        object.__setattr__(self, "type", type)
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "given", dict(options))

    def options(self, **options: Any) -> JobSpec:
        """A copy with these options set. Raises `TypeError` for an unknown one."""
        return JobSpec(self.type, self.args, **{**self.given, **options})


@dataclass(frozen=True)
class Defaults:
    """What applies where a job was given nothing: the handler's options, else these."""

    group: str = "default"
    weight: int = 1
    priority: int = 0
    max_attempts: int = 5
    timeout: float = 86400.0
    memory: int | None = None
    uses: Mapping[str, Decimal] | None = None
    on_failed: str | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """A checked JobSpec: every value is storable. `given`: names of the options that the row has to remember."""

    spec: JobSpec
    type: str
    args: JsonText | None
    group: str
    weight: int
    priority: int
    max_attempts: int
    timeout: float
    key: str | None
    on_conflict: str
    key_for: str
    run_after: Moment | None
    waits_for: Mapping[int | JobSpec, str]
    parent: int | JobSpec | None = None
    container: bool = False
    uses: Mapping[str, Decimal] | None = None
    memory: int | None = None
    on_failed: str | None = None
    given: tuple[str, ...] = field(default=())

    def heir(self, inherited: Mapping[str, Any]) -> Request:
        """The same with what it was not given from `inherited`: group, weight, priority, or some of them."""
        missing = {name: value for name, value in inherited.items() if self.spec.given.get(name) is None}
        if not missing:
            return self
        given = tuple(dict.fromkeys((*self.given, *missing))) if self.container else self.given
        return replace(self, **missing, given=given)

    @property
    def legacy(self) -> dict[str, Any]:
        """What members of this container inherit: what it was given itself. Its label's defaults are nobody's wish."""
        return {name: getattr(self, name) for name in INHERITED if name in self.given}


DefaultsOf = Callable[[str], Defaults]
CheckArgs = Callable[[str, Any], None]


def check_request(spec: JobSpec, defaults_of: DefaultsOf, check_args: CheckArgs) -> Request:
    """The one door: raises `InvalidJob` for anything that could not be stored or run as asked."""
    if not isinstance(spec, JobSpec):
        raise InvalidJob(f"expected a JobSpec or a type name, not {type(spec).__name__}")
    given = {name: value for name, value in spec.given.items() if value is not None}
    job_type = values.check_name("type", spec.type)
    if spec.args is not None and not isinstance(spec.args, Mapping):
        raise InvalidJob(f"args of {job_type!r} must be a mapping of names to values, not {type(spec.args).__name__}")
    container = _check_container(job_type, spec, given)
    text = to_json(spec.args, where="args")
    if not container:
        check_args(job_type, text)
    defaults = Defaults() if container else defaults_of(job_type)
    remembered = (*INHERITED, "on_failed") if container else ("max_attempts", "timeout", "memory", "uses", "on_failed")
    run_after = given.get("run_after")
    return Request(
        spec=spec,
        type=job_type,
        args=None if text is None else JsonText(text),
        group=values.check_name("group", given.get("group", defaults.group)),
        weight=values.check_count("weight", given.get("weight", defaults.weight)),
        priority=values.check_priority(given.get("priority", defaults.priority)),
        max_attempts=values.check_count("max_attempts", given.get("max_attempts", defaults.max_attempts)),
        timeout=values.check_timeout(given.get("timeout", defaults.timeout)),
        key=values.check_name("key", given["key"]) if "key" in given else None,
        on_conflict=values.check_on_conflict(given.get("on_conflict", "return")),
        key_for=values.check_key_for(given.get("key_for", "open")),
        run_after=None if run_after is None else parse_moment(run_after),
        waits_for=_check_after(job_type, given),
        parent=_check_parent(given.get("parent")),
        container=container,
        uses=values.check_uses(given["uses"]) if "uses" in given else None,
        memory=values.check_memory(given["memory"]) if "memory" in given else defaults.memory,
        on_failed=values.check_name("on_failed", given["on_failed"]) if "on_failed" in given else defaults.on_failed,
        given=tuple(name for name in remembered if name in given),
    )


def _check_container(job_type: str, spec: JobSpec, given: Mapping[str, Any]) -> bool:
    container = given.get("container", False)
    if not isinstance(container, bool):
        raise InvalidJob(f"container must be True or False, not {type(container).__name__}")
    if container:
        useless = ["args"] if spec.args else [name for name in OF_RUNNING if name in given]
        if useless:
            raise InvalidJob(f"the container {job_type!r} never runs: give {useless[0]} to its members")
    return container


def _check_parent(parent: object) -> int | JobSpec | None:
    if parent is None or isinstance(parent, JobSpec):
        return parent
    if isinstance(parent, bool) or not isinstance(parent, int):
        raise InvalidJob(f"parent must be a job id or a spec of the same call, not {type(parent).__name__}")
    if not 0 < parent < 2**63:
        raise InvalidJob(f"parent: {parent} is not a job id")
    return parent


def _check_after(job_type: str, given: Mapping[str, Any]) -> dict[int | JobSpec, str]:
    """What the job waits for, each once, with the kind of its edge: `after`, then `after_any`, then `after_failed`."""
    found: dict[int | JobSpec, str] = {}
    for option, kind in KINDS.items():
        items = given.get(option, ())
        if isinstance(items, (str, bytes, Mapping)) or not hasattr(items, "__iter__"):
            raise InvalidJob(f"{option} must be a list of job ids or specs, not {type(items).__name__}")
        for item in items:
            if isinstance(item, bool) or not isinstance(item, (int, JobSpec)):
                raise InvalidJob(f"{option} must hold job ids or specs of the same call, not {type(item).__name__}")
            if isinstance(item, int) and not 0 < item < 2**63:
                raise InvalidJob(f"{option}: {item} is not a job id")
            if found.setdefault(item, kind) != kind:
                raise two_kinds(job_type, f"job {item}" if isinstance(item, int) else f"the job of type {item.type!r}")
    return found


def two_kinds(job_type: str, upstream: str) -> InvalidJob:
    """The error for a job that waits for another in two ways."""
    return InvalidJob(f"{job_type!r} waits for {upstream} in two ways: name it in one of {', '.join(KINDS)}")
