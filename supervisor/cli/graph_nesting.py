"""The jobs of a graph as languages with subgraphs want them: members inside their container. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from sqljobs.schema.neighbourhood import Graph, GraphJob, LeftOut, Relation


class Part(Enum):
    """What stands at one place: a job, the begin or end of one with members, or a word on those left out."""

    JOB = "job"
    BEGIN = "begin"
    END = "end"
    MORE = "more"


Place = tuple[Part, GraphJob | LeftOut, int]


def nested(graph: Graph) -> Iterator[Place]:
    """Each job once, with how deep it stands (0: in no container that is shown), and each crowd once."""
    members: dict[int | None, list[GraphJob]] = {}
    for job in sorted(graph.jobs.values(), key=lambda job: job.id):
        members.setdefault(job.parent if job.parent in graph.jobs else None, []).append(job)
    crowds = {left.job_id: left for left in graph.left_out if left.is_crowd and left.relation is Relation.MEMBERS}
    stack: list[Place] = [(Part.JOB, job, 0) for job in reversed(members[None])]
    while stack:  # no recursion: nesting may be deeper than Python's stack
        part, item, depth = stack.pop()
        if part is not Part.JOB or not isinstance(item, GraphJob) or not (item.id in members or item.id in crowds):
            yield part, item, depth
            continue
        yield Part.BEGIN, item, depth
        stack.append((Part.END, item, depth))
        if item.id in crowds:
            stack.append((Part.MORE, crowds[item.id], depth + 1))
        stack += [(Part.JOB, job, depth + 1) for job in reversed(members.get(item.id, []))]
    for left in graph.left_out:
        if left.is_crowd and left.relation is not Relation.MEMBERS:
            yield Part.MORE, left, 0
