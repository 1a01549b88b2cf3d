"""What pictures of a graph say in words: of a job, of what it waits for, of what is left out. Pure, escapes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from sqljobs.schema.graph import Edge
from sqljobs.schema.neighbourhood import Graph, GraphEdge, GraphJob, LeftOut, Relation
from sqljobs.schema.states import FINAL, OPEN, State
from sqljobs.supervisor.cli.list_jobs import progress_text
from sqljobs.supervisor.cli.times import age

IDS_NAMED = 12
PLACES_NAMED = 4
LONGEST_NAME = 60
WAITS = {
    ("ok", Edge.BROKEN): "broken by {}",
    ("ok", Edge.OPEN): "waits for {}",
    ("any", Edge.OPEN): "waits for any end of {}",
    ("not_ok", Edge.OPEN): "waits for a bad end of {}",
    ("ok", Edge.SATISFIED): "after {}",
    ("any", Edge.SATISFIED): "after any end of {}",
    ("not_ok", Edge.SATISFIED): "after a bad end of {}",
}
AROUND = {
    Relation.UPSTREAMS: ("that job {} waits for", "that job {} waits for"),
    Relation.CONTAINER: ("container of job {}", "containers of job {}"),
    Relation.MEMBERS: ("member of job {}", "members of job {}"),
    Relation.DEPENDENTS: ("that waits for job {}", "that wait for job {}"),
}
HERE = {
    Relation.UPSTREAMS: "that it waits for",
    Relation.CONTAINER: "around it",
    Relation.MEMBERS: "members",
    Relation.DEPENDENTS: "that wait for it",
}


def name_of(job: GraphJob) -> str:
    """`3 resize`, or with its key `3 resize (a.png)`."""
    return f"{job.id} {job.type}" + ("" if job.key is None else f" ({job.key})")


def counted(counts: Mapping[str, int]) -> str:
    """`2 done, 1 running`."""
    order = [*State, *sorted(set(counts) - set(State))]
    return ", ".join(f"{counts[state]:,} {state}" for state in order if counts.get(state))


def ids_in_words(ids: Iterable[int]) -> str:
    """`2, 5-9`, not too many."""
    runs: list[list[int]] = []
    for one in sorted(ids):
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    parts = [part for run in runs for part in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(one) for one in run])]
    if len(parts) <= IDS_NAMED:
        return ", ".join(parts)
    return ", ".join(parts[:IDS_NAMED]) + " and others"


def waits_in_words(edges: Sequence[GraphEdge], drawn: GraphEdge | None) -> Iterator[str]:
    """What a job waits for, or waited for, as far as a drawn line does not say it."""
    for (kind, standing), words in WAITS.items():
        alike = [edge for edge in edges if (edge.kind, edge.standing) == (kind, standing)]
        told = [edge.upstream for edge in alike if edge != drawn or kind != "ok"]
        if told:
            yield ("also " if len(told) < len(alike) else "") + words.format(ids_in_words(told))


def state_in_words(job: GraphJob, graph: Graph, now: datetime) -> Iterator[str]:
    """What else there is to know of the state that a job is in."""
    if job.cancelling:
        yield "being cancelled"
    if job.state == State.SCHEDULED and job.run_after is not None:
        yield f"due {age(job.run_after, now)}"
    if job.state == State.BLOCKED and job.parent is not None:
        parent = graph.jobs.get(job.parent)
        if parent is not None and parent.state == State.BLOCKED:
            yield f"waits with container {parent.id}"
    if job.attempt > 1 or (job.attempt and job.state == State.SCHEDULED):
        yield f"try {job.attempt} of {job.max_attempts}"
    if job.progress is not None and job.state in OPEN:
        yield progress_text(job.progress)
    if job.reason is not None and job.state in FINAL:
        yield job.reason.text or job.reason.code.replace("_", " ")
    if job.id in graph.members:
        yield counted(graph.members[job.id])
    elif job.container:
        yield "container without members"


def left_out_in_words(left: LeftOut) -> str:
    """`9,980 more members of job 7: 9,000 done, 980 ready`."""
    total = sum(left.counts.values())
    return f"{total:,} more {AROUND[left.relation][total != 1].format(left.job_id)}: {counted(left.counts)}"


def left_out_here(left: LeftOut) -> str:
    """The same at the job that it is about."""
    return f"{sum(left.counts.values()):,} more {HERE[left.relation]}: {counted(left.counts)}"


def rest_in_words(graph: Graph) -> str | None:
    """What the picture had no room for, in one line; crowds are told where they stand."""
    rest = [left for left in graph.left_out if not left.is_crowd]
    if not rest:
        return None
    named = [left_out_in_words(left).partition(":")[0] for left in rest[:PLACES_NAMED]]
    more = len(rest) - len(named)
    return f"and not shown: {', '.join(named)}" + (f", and what is around {more:,} other jobs" if more else "")


def neighbours_in_words(graph: Graph) -> Iterator[tuple[str, str]]:
    """What the job asked for waits for, and what waits for it, each with its state."""
    job = graph.jobs[graph.focus]
    upstreams = [edge.upstream for edge in graph.edges if edge.job_id == job.id]
    dependents = [edge.job_id for edge in graph.edges if edge.upstream == job.id]
    sides = (
        ("waits for" if job.state in OPEN else "waited for", Relation.UPSTREAMS, upstreams),
        ("needed by", Relation.DEPENDENTS, dependents),
    )
    for words, relation, ids in sides:
        unseen = sum(
            sum(left.counts.values()) for left in graph.left_out if (left.job_id, left.relation) == (job.id, relation)
        )
        more = len(ids[IDS_NAMED:]) + unseen
        named = ", ".join(f"{one} {graph.jobs[one].state}" for one in ids[:IDS_NAMED])
        if named:
            yield words, named + (f" and {more:,} more" if more else "")


def box_in_words(job: GraphJob, graph: Graph) -> list[str]:
    """The lines that a box of an export holds: name, state, and why it ended so."""
    name = name_of(job)
    short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    reason = "" if job.reason is None else f" ({job.reason.code.replace('_', ' ')})"
    found = [short, f"{job.state}{reason}"]
    if job.id in graph.members:
        found.append(counted(graph.members[job.id]))
    return found
