"""What a caller asks for: a JobSpec, checked at the door and turned into a Request. No database here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqljobs.schema import values
from sqljobs.schema.columns import JsonText
from sqljobs.schema.durations import Moment, parse_moment
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.payloads import to_json

OPTIONS = (
    *("group", "weight", "priority", "run_after", "after", "after_any", "after_failed", "parent", "container"),
    *("key", "on_conflict", "key_for", "max_attempts", "timeout", "memory", "uses", "on_failed"),
)
NOT_YET = frozenset({"after_any", "after_failed", "parent", "container", "memory", "uses", "on_failed"})


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
    uses: Mapping[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """A checked JobSpec: every value is storable."""

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
    after: Sequence[int | JobSpec]
    given: tuple[str, ...] = field(default=())


DefaultsOf = Callable[[str], Defaults]
CheckArgs = Callable[[str, Any], None]


def check_request(spec: JobSpec, defaults_of: DefaultsOf, check_args: CheckArgs) -> Request:
    """The one door: raises `InvalidJob` for anything that could not be stored or run as asked."""
    if not isinstance(spec, JobSpec):
        raise InvalidJob(f"expected a JobSpec or a type name, not {type(spec).__name__}")
    given = {name: value for name, value in spec.given.items() if value is not None}
    for name in given:
        if name in NOT_YET:
            raise InvalidJob(f"the option {name!r} is not built yet in this version of sqljobs")
    job_type = values.check_name("type", spec.type)
    if spec.args is not None and not isinstance(spec.args, Mapping):
        raise InvalidJob(f"args of {job_type!r} must be a mapping of names to values, not {type(spec.args).__name__}")
    text = to_json(spec.args, where="args")
    check_args(job_type, text)
    defaults = defaults_of(job_type)
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
        after=_check_after(given.get("after", ())),
        given=tuple(name for name in ("max_attempts", "timeout", "memory", "uses", "on_failed") if name in given),
    )


def _check_after(after: Any) -> list[int | JobSpec]:
    if isinstance(after, (str, bytes, Mapping)) or not hasattr(after, "__iter__"):
        raise InvalidJob(f"after must be a list of job ids or specs, not {type(after).__name__}")
    found: dict[int | JobSpec, None] = {}  # ordered, each once
    for item in after:
        if isinstance(item, bool) or not isinstance(item, (int, JobSpec)):
            raise InvalidJob(f"after must hold job ids or specs of the same call, not {type(item).__name__}")
        if isinstance(item, int) and not 0 < item < 2**63:
            raise InvalidJob(f"after: {item} is not a job id")
        found[item] = None
    return list(found)
