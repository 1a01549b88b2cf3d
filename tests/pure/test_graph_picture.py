"""The picture of a graph on a terminal: what stands where, at any width, whatever strings users have."""

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.text import Text

from sqljobs.schema.graph import Edge
from sqljobs.schema.neighbourhood import Graph, GraphEdge, GraphJob, LeftOut, Relation
from sqljobs.schema.states import State
from sqljobs.supervisor.cli.graph_forest import ASCII, UNICODE, forest, lines
from sqljobs.supervisor.cli.graph_picture import SHORT, picture
from sqljobs.supervisor.cli.graph_words import counted, ids_in_words, waits_in_words
from tests.pure.graphs import (
    NASTY,
    NOW,
    containers,
    crowds,
    failed_workflow,
    graph_of,
    graphs,
    retried_workflow,
)

few = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def drawn(graph: Graph, width: int = 80, *, unicode: bool = True) -> list[str]:
    return [line.plain.rstrip() for line in picture(graph, NOW, width, unicode=unicode)]


def told_ids(words: str) -> list[int]:
    """The ids in `2, 5-9`, in order."""
    runs = [(int(first), int(last or first)) for first, last in re.findall(r"(\d+)(?:-(\d+))?", words)]
    return sorted(one for first, last in runs for one in range(first, last + 1))


def test_a_failure() -> None:
    assert drawn(failed_workflow()) == [
        "Job 4 join  cancelled",
        "waited for  2 done, 3 failed",
        "needed by   5 done, 6 running",
        "shown       1 running, 3 done, 1 failed, 1 cancelled",
        "",
        "done        1 extract",
        "done        ├─ 2 clean",
        "failed      └─ 3 enrich      try 5 of 5; KeyError: 'price'",
        "cancelled >    × 4 join      after 2; job 3 did not end well",
        "done           ├┄ 5 cleanup  after any end of 4",
        "running        └· 6 notify   after a bad end of 2-4",
        "",
        "> job 4, × cannot be met any more",
    ]


def test_the_readme_shows_what_is_drawn() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert "\n".join(["```", "$ sqljobs show 4 --graph", *drawn(failed_workflow()), "```"]) in readme


def test_a_retry() -> None:
    assert drawn(retried_workflow())[5:] == [
        "done        1 extract",
        "done        ├─ 2 clean",
        "scheduled > └─ 3 enrich      due in 3m; try 1 of 5",
        "blocked        ○ 4 join      after 2",
        "blocked        ├○ 5 cleanup  waits for any end of 4",
        "blocked        └○ 6 notify   waits for a bad end of 3, 4; after a bad end of 2",
        "",
        "> job 3, ○ still waits",
    ]


def test_members_stand_in_their_container() -> None:
    assert drawn(containers())[4:-2] == [
        "done      1 download",
        "waiting   ↓ 2 shards       1 blocked, 1 running, 1 done",
        "done      │ ┃ 3 shard (a)",
        "running   │ ┃ 4 shard (b)  try 2 of 5; 3 of 10, pages",
        "blocked   │ ┃ ○ 5 inner    3 blocked",
        "blocked   │ ┃ ┃ 6 left     waits with container 5",
        "blocked   │ ┃ ┃ 7 right    waits with container 5",
        "blocked   │ ┃ ┃ ○ 8 sum    also waits for 6; waits with container 5",
        "blocked   ○ 9 merge        waits for any end of 2",
        "blocked > ├○ 10 report     after 1",
        "blocked   └○ 11 mail",
    ]


def test_crowds_are_counted_where_they_stand_and_the_rest_below() -> None:
    shown = drawn(crowds(), 100)
    assert "          │ ┃ … and 9,997 more members: 1,000 ready, 8,997 done" in shown
    assert "          └─ … and 40 more that wait for it: 40 blocked" in shown
    assert shown[-2] == "… and not shown: 1 more that waits for job 812"
    assert "blocked   ├○ 20000 merge  and 30 more that it waits for: 30 done" in shown
    assert "needed by   20000 blocked and 40 more" in shown


def test_forty_columns() -> None:
    assert drawn(failed_workflow(), 40)[6:] == [
        "done   1 extract",
        "done   ├─ 2 clean",
        "FAIL   └─ 3 enrich",
        "          │   try 5 of 5; KeyError:",
        "          │   'price'",
        "canc >    × 4 join",
        "          │   after 2; job 3 did not end",
        "          │   well",
        "done      ├┄ 5 cleanup",
        "          │      after any end of 4",
        "run       └· 6 notify",
        "                 after a bad end of 2-4",
        "",
        "> job 4, × cannot be met any more",
    ]


def test_without_unicode() -> None:
    for graph in (failed_workflow(), retried_workflow(), containers(), crowds()):
        assert "".join(drawn(graph, 60, unicode=False)).isascii()
    assert drawn(failed_workflow(), unicode=False)[5:11] == [
        "done        1 extract",
        "done        |- 2 clean",
        "failed      `- 3 enrich      try 5 of 5; KeyError: 'price'",
        "cancelled >    x 4 join      after 2; job 3 did not end well",
        "done           |~ 5 cleanup  after any end of 4",
        "running        `. 6 notify   after a bad end of 2-4",
    ]


def test_states_have_colours_and_failures_stand_out() -> None:
    def looks(line: Text) -> set[tuple[str, str]]:
        return {(line.plain[span.start : span.end].strip(), str(span.style)) for span in line.spans}

    shown = list(picture(failed_workflow(), NOW, 80))[5:]
    assert ("done", "green") in looks(shown[0])
    assert {("failed", "red"), ("try 5 of 5", "red"), ("KeyError: 'price'", "red")} <= looks(shown[2])
    assert {("cancelled", "yellow"), (">", "bold"), ("×", "red"), ("4 join", "bold")} <= looks(shown[3])


def test_states_differ_without_colour_too() -> None:
    assert len(set(SHORT.values())) == len(State)
    assert max(map(len, SHORT.values())) == 5


def test_a_long_chain_stays_in_its_column_and_a_deep_tree_in_its_width() -> None:
    chain = graph_of(1, [GraphJob(n, "step", "done") for n in range(1, 301)], [(n, n - 1, "ok") for n in range(2, 301)])
    assert "done   ↓ 300 step" in drawn(chain, 40)
    # Each step has a side branch before it goes on.
    jobs = [GraphJob(number, "step", "blocked") for number in range(1, 120)]
    comb = graph_of(1, jobs, [(n, n - 1 if n % 2 else n - 2 if n > 2 else 1, "ok") for n in range(2, 120)])
    for width in (40, 80):
        shown = drawn(comb, width)
        assert max(map(len, shown)) <= width
        assert sum("step" in line for line in shown[4:]) == 119
    assert any("waits for" in line for line in drawn(comb, 40)[5:])


def test_nesting_deeper_than_the_width_goes_on_without_walls() -> None:
    jobs = [GraphJob(n, "t", "waiting", container=True, parent=n - 1 or None) for n in range(1, 1001)]
    shown = drawn(graph_of(1, jobs, []), 80)
    assert max(map(len, shown)) <= 80
    assert sum(" t" in line for line in shown[3:]) == 1000
    assert " ".join(" ".join(shown).replace("┃", "").split()).endswith(
        "1000 t in container 999; container without members > job 1"
    )


def test_a_container_and_a_job_outside_that_wait_for_each_others_parts() -> None:
    jobs = [
        GraphJob(1, "c", "waiting", container=True),
        GraphJob(2, "first", "done", parent=1),
        GraphJob(3, "last", "blocked", parent=1),
        GraphJob(4, "outside", "running"),
    ]
    assert drawn(graph_of(1, jobs, [(4, 2, "ok"), (3, 4, "ok")]))[2:-2] == [
        "",
        "waiting > 1 c        1 blocked, 1 done",
        "done      ┃ 2 first",
        "blocked   ┃ 3 last   waits for 4",
        "running   4 outside  after 2",
    ]


@given(graphs(), st.sampled_from([40, 59, 60, 80, 200, 4000]), st.booleans())
@few
def test_any_graph_fits_its_width_and_nothing_in_it_acts(graph: Graph, width: int, unicode: bool) -> None:
    for line in picture(graph, NOW, width, unicode=unicode):
        assert line.cell_len <= width
        assert not any(one < " " or "\x7f" <= one <= "\x9f" or one in "\u202e\u2066\u2028" for one in line.plain)


@given(graphs(), st.sampled_from([0, 3, 12, 100]))
@few
def test_each_job_is_shown_once_and_each_edge_drawn_or_told(graph: Graph, widest: int) -> None:
    shown = list(lines(graph, UNICODE, widest))
    assert Counter(line.item.id for line in shown if isinstance(line.item, GraphJob)) == Counter(list(graph.jobs))
    assert max(len(line.rails) for line in shown) <= widest
    for line in shown:
        if not isinstance(line.item, GraphJob):
            continue
        edges = [edge for edge in graph.edges if edge.job_id == line.item.id]
        assert line.edge is None or line.edge in edges
        told = told_ids(" ".join(waits_in_words(edges, line.edge)))
        assert told == sorted(edge.upstream for edge in edges if edge != line.edge or edge.kind != "ok")


@given(graphs())
@few
def test_a_job_comes_after_all_that_it_waits_for(graph: Graph) -> None:
    flat = Graph(graph.focus, {job: GraphJob(job, "t", "done") for job in graph.jobs}, graph.edges)
    place = {
        line.item.id: number for number, line in enumerate(lines(flat, ASCII, 100)) if isinstance(line.item, GraphJob)
    }
    assert all(place[edge.upstream] < place[edge.job_id] for edge in graph.edges)
    trees = forest(flat)
    assert trees.roots.keys() == {None}
    assert set(trees.roots[None]) == set(flat.jobs) - {edge.job_id for edge in flat.edges}


@pytest.mark.parametrize("text", NASTY)
def test_hostile_names_stay_on_their_line(text: str) -> None:
    assert len(drawn(graph_of(1, [GraphJob(1, text, "done")], []))) == 6


@pytest.mark.parametrize(
    ("ids", "words"),
    [([], ""), ([3], "3"), ([1, 2], "1, 2"), ([3, 1, 2, 9], "1-3, 9"), (range(1, 100), "1-99")],
)
def test_ids(ids: list[int], words: str) -> None:
    assert ids_in_words(ids) == words


def test_many_ids() -> None:
    assert ids_in_words(range(1, 100, 2)) == "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23 and others"


def test_what_else_is_said_of_a_job() -> None:
    jobs = [
        GraphJob(1, "a", "running", cancelling=True, attempt=1),
        GraphJob(2, "b", "waiting", container=True),
        GraphJob(3, "c", "scheduled", run_after=NOW + timedelta(hours=2)),
        GraphJob(4, "d", "done"),
    ]
    shown = drawn(graph_of(1, jobs, []))
    assert "running   > 1 a  being cancelled" in shown
    assert "waiting     2 b  container without members" in shown
    assert "scheduled   3 c  due in 2h" in shown
    assert counted({"done": 2, "pruned": 1, "blocked": 1000}) == "1,000 blocked, 2 done, 1 pruned"


def test_kinds_and_standings_are_told_apart() -> None:
    told = [
        " ".join(waits_in_words([GraphEdge(2, 1, kind, standing)], None))
        for kind in ("ok", "any", "not_ok")
        for standing in (Edge.OPEN, Edge.SATISFIED)
    ]
    assert told == [
        *("waits for 1", "after 1", "waits for any end of 1", "after any end of 1"),
        *("waits for a bad end of 1", "after a bad end of 1"),
    ]


def test_a_container_that_was_left_out() -> None:
    graph = graph_of(
        1, [GraphJob(1, "t", "ready", parent=9)], [], (LeftOut(1, Relation.CONTAINER, {"waiting": 1}, False),)
    )
    assert drawn(graph)[-2] == "… and not shown: 1 more container of job 1"
