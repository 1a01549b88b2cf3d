"""A job and what is around it, as plain values: what pictures of a graph are drawn from. No database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sqljobs.schema.graph import Edge
from sqljobs.schema.job_info import Progress, StateReason

PRUNED = "pruned"  # stands for the state of a job whose row is gone


class Relation(StrEnum):
    """What a neighbour is to a job."""

    UPSTREAMS = "upstreams"
    CONTAINER = "container"
    MEMBERS = "members"
    DEPENDENTS = "dependents"


@dataclass(frozen=True)
class GraphJob:
    """One job of a picture. `reason` is what was written at its end; `cancelling`: its cancel was asked for."""

    id: int
    type: str
    state: str
    key: str | None = None
    reason: StateReason | None = None
    container: bool = False
    parent: int | None = None
    attempt: int = 0
    max_attempts: int = 1
    run_after: datetime | None = None
    progress: Progress | None = None
    cancelling: bool = False


@dataclass(frozen=True)
class GraphEdge:
    """`job_id` waits for `upstream`, in the way `kind` (ok, any, not_ok)."""

    job_id: int
    upstream: int
    kind: str
    standing: Edge


@dataclass(frozen=True)
class LeftOut:
    """Neighbours of a shown job that are not shown, counted by state. `is_crowd`: they are too many to be shown,
    else the picture was full."""

    job_id: int
    relation: Relation
    counts: Mapping[str, int]
    is_crowd: bool


@dataclass(frozen=True)
class Graph:
    """A job and what is around it, the nearest first; all edges among these jobs.

    `members`: by job, how many members it has in each state, shown or not."""

    focus: int
    jobs: Mapping[int, GraphJob]
    edges: Sequence[GraphEdge] = ()
    members: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
