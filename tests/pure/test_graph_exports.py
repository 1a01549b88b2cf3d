"""Graphviz and Mermaid: each job and edge is there exactly once, whatever strings users have."""

from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqljobs.schema.graph import KINDS, Edge
from sqljobs.schema.neighbourhood import Graph, GraphEdge, GraphJob, Relation
from sqljobs.supervisor.cli.graph_dot import dot
from sqljobs.supervisor.cli.graph_mermaid import mermaid
from sqljobs.supervisor.cli.graph_words import LONGEST_NAME, box_in_words
from sqljobs.supervisor.cli.output import clean
from tests.pure.graph_languages import Read, read_dot, read_mermaid
from tests.pure.graphs import NASTY, containers, crowds, failed_workflow, graph_of, graphs

EXPORTS: dict[str, tuple[Callable[..., str], Callable[[str], Read]]] = {
    "dot": (dot, read_dot),
    "mermaid": (mermaid, read_mermaid),
}
ALL = pytest.mark.parametrize("language", list(EXPORTS))


def exported(graph: Graph, language: str, *, ascii_only: bool = False) -> Read:
    write, read = EXPORTS[language]
    text = write(graph, ascii_only=ascii_only)
    assert not ascii_only or text.isascii()
    return read(text)


def written_out(line: str) -> str:
    """SVG cannot hold these two, so that dot writes them out."""
    return line.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def check_all_is_there_once(graph: Graph, language: str, *, ascii_only: bool = False) -> None:
    found = exported(graph, language, ascii_only=ascii_only)
    assert {name for name in found.labels if name.startswith("j")} == {f"j{job}" for job in graph.jobs}
    for job in graph.jobs.values():
        said = [written_out(clean(line)) for line in box_in_words(job, graph)]
        assert [written_out(line) for line in found.labels[f"j{job.id}"]] == said
    edges = Counter({ends: count for ends, count in found.edges.items() if not any("more" in end for end in ends)})
    assert edges == Counter((f"j{edge.upstream}", f"j{edge.job_id}") for edge in graph.edges)
    more = {name for name in found.labels if name.startswith("more")}
    assert more == {f"more_{left.relation}_{left.job_id}" for left in graph.left_out if left.is_crowd}
    for job in graph.jobs.values():
        around = found.inside[f"j{job.id}"]
        own = around == f"cluster_{job.id}"  # a container's node stands in its own cluster
        if job.parent in graph.jobs and not own:
            assert around == (f"cluster_{job.parent}" if language == "dot" else f"j{job.parent}")
        elif not own:
            assert around is None


@given(graphs(), st.booleans())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_each_job_and_edge_is_there_once(graph: Graph, ascii_only: bool) -> None:
    for language in EXPORTS:
        check_all_is_there_once(graph, language, ascii_only=ascii_only)


@ALL
@pytest.mark.parametrize("text", NASTY)
def test_hostile_names_are_names(language: str, text: str) -> None:
    check_all_is_there_once(graph_of(1, [GraphJob(1, text, "done", text), GraphJob(2, "t", "ready")], []), language)


@ALL
@pytest.mark.parametrize("make", [failed_workflow, containers, crowds])
def test_real_graphs(language: str, make: Callable[[], Graph]) -> None:
    check_all_is_there_once(make(), language)


def test_kinds_and_standings_look_different() -> None:
    possible = [*product(KINDS.values(), (Edge.OPEN, Edge.SATISFIED)), ("ok", Edge.BROKEN)]
    jobs = [GraphJob(number, "t", "done") for number in range(len(possible) + 1)]
    edges = [GraphEdge(number, 0, *looks) for number, looks in enumerate(possible, 1)]
    graph = Graph(0, {job.id: job for job in jobs}, edges)
    for language in EXPORTS:
        assert len(set(exported(graph, language).kinds.values())) == len(possible)


def test_dot_of_a_workflow() -> None:
    text = dot(failed_workflow())
    assert '    j3 [label="3 enrich\\nfailed (error)", fillcolor="#f7cfcf"];\n' in text
    assert '    j4 [label="4 join\\ncancelled (dependency)", fillcolor="#f8ebc4", penwidth=3];\n' in text
    assert '    j3 -> j4 [style=solid, color="#c62828", penwidth=2, arrowhead=tee];\n' in text
    assert '    j4 -> j5 [style=dashed, color="#333333", arrowhead=normal];\n' in text
    assert '    j4 -> j6 [style=dotted, color="#c62828", penwidth=2, arrowhead=normal];\n' in text


def test_mermaid_of_a_workflow() -> None:
    text = mermaid(failed_workflow())
    assert '    j3["3 enrich<br/>failed (error)"]:::failed\n' in text
    assert "    j1 --> j2\n    j1 --> j3\n    j2 --> j4\n    j3 --x j4\n    j4 -.->|any end| j5\n" in text
    assert "    linkStyle 3 stroke:#c62828,stroke-width:3px\n" in text
    assert "    class j4 focus\n" in text


@ALL
def test_crowds_and_what_there_was_no_room_for(language: str) -> None:
    write, read = EXPORTS[language]
    found = read(write(crowds()))
    assert found.labels["more_members_7"] == ["... and 9,997 more members of job 7: 1,000 ready, 8,997 done"]
    assert found.edges["j7", "more_dependents_7"] == 1
    assert found.edges["more_upstreams_20000", "j20000"] == 1
    assert f"more_{Relation.DEPENDENTS}_812" not in found.labels
    assert "and not shown" in write(crowds())
    assert "1 more that waits for job 812" in write(crowds())


@ALL
def test_long_names_are_cut(language: str) -> None:
    found = exported(graph_of(1, [GraphJob(1, "x" * 200, "done")], []), language)
    assert found.labels["j1"] == ["1 " + "x" * (LONGEST_NAME - 3) + "…", "done"]


@ALL
def test_deep_nesting(language: str) -> None:
    jobs = [GraphJob(number, "t", "waiting", container=True, parent=number - 1 or None) for number in range(1, 301)]
    check_all_is_there_once(graph_of(1, jobs, []), language)


def test_mermaid_says_when_it_must_be_told_of_many_edges() -> None:
    jobs = [GraphJob(number, "t", "done") for number in range(1, 42)]
    waits = [(lower, upper, "ok") for lower in range(2, 42) for upper in range(1, lower)]
    assert "%%" not in mermaid(graph_of(1, jobs, waits[:500]))
    assert "    %% 501 edges: set maxEdges of your Mermaid to as many\n" in mermaid(graph_of(1, jobs, waits[:501]))
