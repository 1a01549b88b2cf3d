"""What the model must say of a move that the real transactions refused, or that opened jobs again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqljobs.schema.errors import CycleError, InvalidJob, Refused, UnknownJob
from tests.schema.graph_model import Described, Model
from tests.schema.graph_operators import REFUSED

DOOR = (Refused, CycleError, UnknownJob, InvalidJob)


def nothing(_model: Model) -> None:
    """No such job is there."""


def was_refused(model: Model, made: Sequence[Described], error: Exception, within: int = 0) -> None:
    """Rightly so, if one whose key is taken may be refused for what it would be if it were written."""
    keyless = [replace(one, key=None) for one in made]
    assert any(_may_be_refused(model, some, within) for some in (made, keyless)), f"why {error!r}?"


def _may_be_refused(model: Model, made: Sequence[Described], within: int) -> bool:
    plan = model.plan(made, within=within)
    return isinstance(plan, str) or model.in_circle(plan[1], every_edge=True)


def was_refused_to(model: Model, job_id: int, made: Sequence[Described], error: Exception) -> None:
    """Its handler has run, and what that had enqueued is refused: the end is still to come."""
    model.start(job_id)
    assert not model.jobs[job_id].cancel_requested, f"why {error!r}? It is being cancelled"
    was_refused(model, made, error, within=job_id)


def same_reopened(told: Any, changed: Any, wanted: Sequence[int]) -> None:
    """It tells no job that was not opened, but for the wanted ones, which may be containers that are open."""
    assert (told == REFUSED) == (changed is None)
    assert changed is None or set(changed) <= {*told, *wanted}


def unless_refused(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (Refused, InvalidJob):
        return None
