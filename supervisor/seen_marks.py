"""The marks that processes carry, read once for each. What they mean is decided in strays.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Sequence

from sqljobs.supervisor.sightings import Process, Sighting, marks_of, sight
from sqljobs.worker_runtime.process_mark import Mark


class SeenMarks:
    """A cache: a process that has no mark cannot come by one, and what it loses by an exec is remembered."""

    def __init__(self) -> None:
        self._marks: dict[Process, frozenset[Mark]] = {}

    def read(self, seen: Sequence[Sighting], is_wanted: Callable[[Sighting], bool]) -> None:
        """Read the marks of those that are wanted and not known yet; forget who is not among `seen`."""
        former, self._marks = self._marks, {}
        own = os.getpid()
        for one in seen:
            marks = former.get(one.process)
            if marks is None and one.process.pid != own and is_wanted(one):
                marks = marks_of(one)
            if marks is not None:
                self._marks[one.process] = marks

    def of(self, supervisors: Container[str]) -> dict[Process, frozenset[Mark]]:
        """Those that carry marks of `supervisors` (ids), and these marks."""
        mine = {
            process: frozenset(mark for mark in marks if mark.supervisor_id in supervisors)
            for process, marks in self._marks.items()
            if marks
        }
        return {process: marks for process, marks in mine.items() if marks}

    def supervisors(self) -> set[str]:
        """The ids in all marks."""
        return {mark.supervisor_id for marks in self._marks.values() for mark in marks}


def is_within(supervisor_id: str) -> bool:
    """Whether a job of that supervisor started this very process: then all that we start carries its mark, too."""
    own = sight(os.getpid())
    marks = marks_of(own) if own is not None else None
    return any(mark.supervisor_id == supervisor_id for mark in marks or ())
