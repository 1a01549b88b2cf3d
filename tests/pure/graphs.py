"""Graphs for pictures: a few that are real, and any that hypothesis can think of, hostile strings included."""

from datetime import UTC, datetime, timedelta
from itertools import product

from hypothesis import strategies as st

from sqljobs.schema.graph import KINDS, Edge, edge_of
from sqljobs.schema.job_info import Progress, StateReason
from sqljobs.schema.neighbourhood import Graph, GraphEdge, GraphJob, LeftOut, Relation
from sqljobs.schema.states import State

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
WAITS = [
    *((2, 1, "ok"), (3, 1, "ok"), (4, 2, "ok"), (4, 3, "ok"), (5, 4, "any")),
    *((6, 2, "not_ok"), (6, 3, "not_ok"), (6, 4, "not_ok")),
]
NASTY = [
    *(
        "\x1b[31mred\x1b[0m",
        'a"b',
        'end"]\n    j99["x',
        "a\\",
        "a\\nb",
        "\\N",
        "&lt;b&gt;",
        "<b>x</b>",
        "`x`",
        "#35;",
        "ﬂ°°35¶ß",
    ),
    *(
        "%%{init: {'theme': 'dark'}}%%",
        "direction TB",
        "style a:#b;c",
        "classDef a:#b;c",
        "[red]x[/red]",
        "-- x --> j1",
    ),
    *("\u202eabc", "日本語", "fa:fa-car", "\ufffe", "};\n}", "//", "|", "1. a", "$$x$$", " ", "]] ---", "e\u0301"),
]


def graph_of(
    focus: int, jobs: list[GraphJob], waits: list[tuple[int, int, str]], left_out: tuple[LeftOut, ...] = ()
) -> Graph:
    """A graph whose edges stand as the states of their upstreams say."""
    by_id = {job.id: job for job in jobs}
    members: dict[int, dict[str, int]] = {}
    for job in jobs:
        if job.parent is not None:
            counts = members.setdefault(job.parent, {})
            counts[job.state] = counts.get(job.state, 0) + 1
    edges = [
        GraphEdge(
            job, upstream, kind, edge_of(kind, by_id[upstream].state, getattr(by_id[upstream].reason, "code", None))
        )
        for job, upstream, kind in waits
    ]
    return Graph(focus, by_id, edges, members, left_out)


def failed_workflow() -> Graph:
    """Extract, two branches of which one failed, a join, a cleanup that ran, a notifier that runs."""
    jobs = [
        GraphJob(1, "extract", "done", attempt=1, max_attempts=5),
        GraphJob(2, "clean", "done", attempt=1, max_attempts=5),
        GraphJob(3, "enrich", "failed", None, StateReason("error", "KeyError: 'price'"), attempt=5, max_attempts=5),
        GraphJob(4, "join", "cancelled", None, StateReason("dependency", "job 3 did not end well", 3)),
        GraphJob(5, "cleanup", "done", attempt=1, max_attempts=5),
        GraphJob(6, "notify", "running", attempt=1, max_attempts=5),
    ]
    return graph_of(4, jobs, WAITS)


def retried_workflow() -> Graph:
    """The same while its second branch waits for its next try."""
    due = NOW + timedelta(minutes=3)
    jobs = [
        GraphJob(1, "extract", "done", attempt=1, max_attempts=5),
        GraphJob(2, "clean", "done", attempt=1, max_attempts=5),
        GraphJob(3, "enrich", "scheduled", attempt=1, max_attempts=5, run_after=due),
        *(GraphJob(number, name, "blocked") for number, name in ((4, "join"), (5, "cleanup"), (6, "notify"))),
    ]
    return graph_of(3, jobs, WAITS)


def containers() -> Graph:
    """A container with another in it, between jobs in front of and behind it."""
    jobs = [
        GraphJob(1, "download", "done"),
        GraphJob(2, "shards", "waiting", container=True),
        GraphJob(3, "shard", "done", "a", parent=2),
        GraphJob(4, "shard", "running", "b", parent=2, attempt=2, max_attempts=5, progress=Progress(3, 10, "pages")),
        GraphJob(5, "inner", "blocked", parent=2, container=True),
        *(GraphJob(number, name, "blocked", parent=5) for number, name in ((6, "left"), (7, "right"), (8, "sum"))),
        *(GraphJob(number, name, "blocked") for number, name in ((9, "merge"), (10, "report"), (11, "mail"))),
    ]
    waits = [
        (2, 1, "ok"),
        (5, 4, "ok"),
        (8, 6, "ok"),
        (8, 7, "ok"),
        (9, 2, "any"),
        (10, 9, "ok"),
        (11, 9, "ok"),
        (10, 1, "ok"),
    ]
    return graph_of(10, jobs, waits)


def crowds() -> Graph:
    """A container of ten thousand, and a job that waits for it as one of many."""
    jobs = [
        GraphJob(7, "shards", "waiting", container=True),
        *(GraphJob(number, "shard", "done", parent=7) for number in (8, 9)),
        GraphJob(812, "shard", "failed", parent=7, reason=StateReason("exit", "exit code 3")),
        GraphJob(20000, "merge", "blocked"),
    ]
    left_out = (
        LeftOut(7, Relation.MEMBERS, {"ready": 1000, "done": 8997}, True),
        LeftOut(7, Relation.DEPENDENTS, {"blocked": 40}, True),
        LeftOut(20000, Relation.UPSTREAMS, {"done": 30}, True),
        LeftOut(812, Relation.DEPENDENTS, {"cancelled": 1}, False),
    )
    return graph_of(7, jobs, [(20000, 7, "ok")], left_out)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph: all states, kinds and standings, nested containers, any text as type and key, anything left out."""
    count = draw(st.integers(1, 7))
    ids = sorted(draw(st.sets(st.integers(1, 10**6), min_size=count, max_size=count)))
    texts = st.one_of(st.sampled_from(NASTY), st.text(min_size=1, max_size=20))
    parents: dict[int, int | None] = {}
    for place, one in enumerate(ids):
        parents[one] = (
            draw(st.one_of(st.none(), st.sampled_from(ids[:place]))) if place else draw(st.sampled_from([None, 10**7]))
        )
    jobs = [
        GraphJob(
            one,
            draw(texts),
            draw(st.sampled_from(list(State))),
            draw(st.one_of(st.none(), texts)),
            draw(st.one_of(st.none(), st.builds(StateReason, st.sampled_from(["error", "not_needed"]), texts))),
            container=draw(st.booleans()),
            parent=parents[one],
            attempt=draw(st.integers(0, 3)),
            run_after=draw(st.sampled_from([None, NOW])),
            progress=draw(st.one_of(st.none(), st.builds(Progress, st.just(1.0), st.none(), texts))),
            cancelling=draw(st.booleans()),
        )
        for one in ids
    ]
    around = {one: _around(one, parents) for one in ids}
    pairs = [(lower, upper) for upper in ids for lower in ids if lower > upper and upper not in around[lower]]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    looks = st.sampled_from([*product(KINDS.values(), (Edge.OPEN, Edge.SATISFIED)), ("ok", Edge.BROKEN)])
    edges = [GraphEdge(lower, upper, *draw(looks)) for lower, upper in chosen]
    members = graph_of(ids[0], jobs, []).members
    left = st.builds(
        LeftOut,
        st.sampled_from(ids),
        st.sampled_from(list(Relation)),
        st.dictionaries(st.sampled_from([*State, "pruned"]), st.integers(1, 10**6), min_size=1),
        st.booleans(),
    )
    left_out = draw(st.lists(left, max_size=4, unique_by=lambda one: (one.job_id, one.relation)))
    return Graph(draw(st.sampled_from(ids)), {job.id: job for job in jobs}, edges, members, left_out)


def _around(job: int, parents: dict[int, int | None]) -> set[int]:
    found: set[int] = set()
    at = parents[job]
    while at is not None:
        found.add(at)
        at = parents.get(at)
    return found
