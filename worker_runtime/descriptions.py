"""Job types of which a process knows the options, not the function: as JSON, and how a child comes by the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

from sqljobs.schema.errors import BadHandlers
from sqljobs.schema.outcomes import Backoff
from sqljobs.schema.renderings import shown
from sqljobs.schema.specs import Defaults
from sqljobs.schema.values import nearest
from sqljobs.worker_runtime.registry import JobType

Load = Callable[[], Mapping[str, JobType]]


def description_of(job_type: JobType) -> dict[str, Any]:
    """What a supervisor has to know of a type, for JSON. Of `fail_on` the causes: classes matter in the child alone."""
    given = job_type.defaults
    uses = None if given.uses is None else {name: str(amount) for name, amount in given.uses.items()}
    return {
        "name": job_type.name,
        "defaults": {**vars(given), "uses": uses},
        "backoff": vars(job_type.backoff),
        "fail_on": [item for item in job_type.fail_on if isinstance(item, str)],
    }


def described(description: Mapping[str, Any], load: Load) -> JobType:
    """The type that `description_of` has described; `load` imports the handlers, in a child, and may raise
    `BadHandlers`."""
    given = description["defaults"]
    uses = None if given["uses"] is None else {name: Decimal(amount) for name, amount in given["uses"].items()}
    return DescribedType(
        description["name"],
        _elsewhere,
        Defaults(**{**given, "uses": uses}),
        Backoff(**description["backoff"]),
        tuple(description["fail_on"]),
        load,
    )


@dataclass(frozen=True)
class DescribedType(JobType):
    """A type whose module this process has not imported."""

    load: Load = field(default=dict, repr=False)

    def here(self) -> JobType:
        found = self.load()
        if self.name not in found:
            raise BadHandlers(
                f"no handler is called {shown(self.name)} any more{nearest(self.name, found)}: its module has changed"
                " since the supervisor started, which a restart would notice"
            )
        return found[self.name]


def _elsewhere(*_arguments: object, **_keywords: object) -> NoReturn:
    raise RuntimeError("this handler is imported in its jobs' processes alone")
