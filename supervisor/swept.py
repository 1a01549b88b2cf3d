"""What a sweep has found of one attempt, or of a dead supervisor, and when it is over. Pure: looks at no process."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqljobs.supervisor.sightings import Process

# A pass over /proc is no snapshot: the second one that finds nothing shows that nothing forked past the first.
PASSES = 2
PATIENCE_SECONDS = 10.0


@dataclass
class Family:
    """The processes of an attempt, or of a dead supervisor. `over_at`: boot-time clock; None while it goes on."""

    over_at: float | None = None
    passes: int = 0
    killed: set[Process] = field(default_factory=set)
    left: tuple[Process, ...] = ()

    @property
    def is_sought(self) -> bool:
        return self.over_at is not None and self.passes < PASSES


@dataclass(frozen=True)
class Swept:
    """What became of a family. `killed`: what was killed of it; `left`: what lives on all the same."""

    killed: tuple[Process, ...] = ()
    left: tuple[Process, ...] = ()


NOTHING_LEFT = Swept()


def swept_of(family: Family, now: float) -> Swept | None:
    """The result, once it is over: after two passes that found nothing, or when patience is at its end."""
    if family.over_at is None:
        return None
    if family.passes >= PASSES or now - family.over_at >= PATIENCE_SECONDS:
        return Swept(tuple(sorted(family.killed)), family.left)
    return None
