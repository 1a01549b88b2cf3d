"""A graph of jobs as Graphviz text. Pure; every string of a user's is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sqljobs.schema.graph import Edge
from sqljobs.schema.neighbourhood import Graph, GraphJob, LeftOut, Relation
from sqljobs.supervisor.cli.graph_nesting import Part, nested
from sqljobs.supervisor.cli.graph_words import box_in_words, left_out_in_words, rest_in_words
from sqljobs.supervisor.cli.output import clean

FILLS = {
    "blocked": "#eeeeee",
    "scheduled": "#eeeeee",
    "ready": "#ffffff",
    "leased": "#cfe8f5",
    "running": "#cfe8f5",
    "waiting": "#e4dff5",
    "done": "#d3efd3",
    "failed": "#f7cfcf",
    "cancelled": "#f8ebc4",
}
KINDS = {
    "ok": 'style=solid, color="#333333"',
    "any": 'style=dashed, color="#333333"',
    "not_ok": 'style=dotted, color="#c62828", penwidth=2',
}
HEADS = {Edge.SATISFIED: "normal", Edge.OPEN: "odot", Edge.BROKEN: "tee"}
BROKEN = 'style=solid, color="#c62828", penwidth=2'  # only an edge of kind ok can be broken
# Graphviz copies these into SVG, where no XML parser takes them.
_NOT_XML = re.compile("[\ufffe\uffff]")


def dot(graph: Graph, *, ascii_only: bool = False) -> str:
    """One node `j7` for each job 7, a container's within a cluster with its members; one edge for each edge."""
    lines = [
        "digraph sqljobs {",
        '    node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];',
    ]
    rest = rest_in_words(graph)
    if rest is not None:
        lines.append(f"    label={_quoted([f'... {rest}'], ascii_only)};")
    for part, item, depth in nested(graph):
        indent = "    " * (depth + 1)
        lines += [indent + line for line in _lines_of(part, item, graph, ascii_only)]
    lines += [f"    {edge}" for edge in _edges(graph)]
    return "\n".join([*lines, "}", ""])


def _lines_of(part: Part, item: GraphJob | LeftOut, graph: Graph, ascii_only: bool) -> Iterator[str]:
    if isinstance(item, LeftOut):
        yield from _more(item, ascii_only)
    elif part is Part.JOB:
        yield _node(item, graph, ascii_only)
    elif part is Part.BEGIN:
        yield f"subgraph cluster_{item.id} {{"
        yield '    style=rounded; color="#888888";'
        yield f"    {_node(item, graph, ascii_only)}"
    else:
        yield "}"


def _node(job: GraphJob, graph: Graph, ascii_only: bool) -> str:
    looks = [f"label={_quoted(box_in_words(job, graph), ascii_only)}", f'fillcolor="{FILLS[job.state]}"']
    if job.container or job.id in graph.members:
        looks.append("shape=folder, style=filled")
    if job.id == graph.focus:
        looks.append("penwidth=3")
    return f"j{job.id} [{', '.join(looks)}];"


def _more(left: LeftOut, ascii_only: bool) -> Iterator[str]:
    name = f"more_{left.relation}_{left.job_id}"
    words = _quoted([f"... and {left_out_in_words(left)}"], ascii_only)
    yield f"{name} [label={words}, shape=plaintext, style=solid];"
    if left.relation is not Relation.MEMBERS:
        start, end = (f"j{left.job_id}", name) if left.relation is Relation.DEPENDENTS else (name, f"j{left.job_id}")
        yield f'{start} -> {end} [arrowhead=none, color="#888888"];'


def _edges(graph: Graph) -> Iterator[str]:
    for edge in graph.edges:
        looks = BROKEN if edge.standing is Edge.BROKEN else KINDS[edge.kind]
        yield f"j{edge.upstream} -> j{edge.job_id} [{looks}, arrowhead={HEADS[edge.standing]}];"


def _quoted(lines: Iterable[str], ascii_only: bool) -> str:
    return '"' + "\\n".join(_escaped(line, ascii_only) for line in lines) + '"'


def _escaped(text: str, ascii_only: bool) -> str:
    """Backslashes begin Graphviz's own escapes, `&` its entities; the rest of a quoted text stands for itself."""
    safe = _NOT_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", clean(text))
    safe = safe.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return safe.encode("ascii", "xmlcharrefreplace").decode() if ascii_only else safe
