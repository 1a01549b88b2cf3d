"""A graph of jobs as a Mermaid flowchart, for documents. Pure; every string of a user's is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqljobs.schema.graph import Edge
from sqljobs.schema.neighbourhood import Graph, GraphJob, LeftOut, Relation
from sqljobs.supervisor.cli.graph_nesting import Part, nested
from sqljobs.supervisor.cli.graph_words import box_in_words, left_out_in_words, rest_in_words
from sqljobs.supervisor.cli.output import clean

CLASSES = {
    "blocked": "fill:#eeeeee,stroke:#888888,color:#333333",
    "scheduled": "fill:#eeeeee,stroke:#555555,color:#333333",
    "ready": "fill:#ffffff,stroke:#555555,color:#333333",
    "leased": "fill:#cfe8f5,stroke:#0277bd,color:#333333",
    "running": "fill:#cfe8f5,stroke:#0277bd,color:#333333",
    "waiting": "fill:#f3f0fb,stroke:#5e35b1,color:#333333",
    "done": "fill:#d3efd3,stroke:#2e7d32,color:#333333",
    "failed": "fill:#f7cfcf,stroke:#c62828,color:#333333",
    "cancelled": "fill:#f8ebc4,stroke:#b28704,color:#333333",
    "more": "fill:none,stroke:none",
    "focus": "stroke-width:4px",
}
# Solid or dashed by kind, the head by standing; Mermaid has one way to dash, so that the kind is written, too.
LINES = {"ok": "--", "any": "-.-", "not_ok": "-.-"}
HEADS = {Edge.SATISFIED: ">", Edge.OPEN: "o", Edge.BROKEN: "x"}
LABELS = {"ok": "", "any": "|any end|", "not_ok": "|bad end|"}
NOT_OK, BROKEN = "stroke:#c62828,stroke-dasharray:2 4", "stroke:#c62828,stroke-width:3px"
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,()")
SENTINELS = frozenset("ﬂß")  # letters that Mermaid writes entities with while it works
MOST_EDGES = 500


def mermaid(graph: Graph, *, ascii_only: bool = False) -> str:
    """One box or subgraph `j7` for each job 7, and one arrow for each edge."""
    lines = ["flowchart TD"]
    if len(graph.edges) > MOST_EDGES:
        lines.append(f"    %% {len(graph.edges)} edges: set maxEdges of your Mermaid to as many")
    for part, item, depth in nested(graph):
        indent = "    " * (depth + 1)
        lines += [indent + line for line in _lines_of(part, item, graph, ascii_only)]
    rest = rest_in_words(graph)
    if rest is not None:
        lines.append(f"    rest[{_quoted([f'... {rest}'], ascii_only)}]:::more")
    lines += [f"    {line}" for line in _edges(graph)]
    used = {"more", "focus", *(job.state for job in graph.jobs.values())}
    lines += [f"    classDef {name} {looks}" for name, looks in CLASSES.items() if name in used]
    lines.append(f"    class j{graph.focus} focus")
    return "\n".join([*lines, ""])


def _lines_of(part: Part, item: GraphJob | LeftOut, graph: Graph, ascii_only: bool) -> Iterator[str]:
    if isinstance(item, LeftOut):
        words = _quoted([f"... and {left_out_in_words(item)}"], ascii_only)
        yield f"{_name_of_more(item)}[{words}]:::more"
        return
    if part is Part.END:
        yield "end"
        yield f"class j{item.id} {item.state}"
        return
    label = _quoted(box_in_words(item, graph), ascii_only)
    if part is Part.BEGIN:
        yield f"subgraph j{item.id}[{label}]"
    else:
        yield f"j{item.id}" + (f"[[{label}]]" if item.container else f"[{label}]") + f":::{item.state}"


def _name_of_more(left: LeftOut) -> str:
    return f"more_{left.relation}_{left.job_id}"


def _edges(graph: Graph) -> Iterator[str]:
    colored: dict[str, list[str]] = {}
    for place, edge in enumerate(graph.edges):
        yield f"j{edge.upstream} {LINES[edge.kind]}{HEADS[edge.standing]}{LABELS[edge.kind]} j{edge.job_id}"
        if edge.standing is Edge.BROKEN or edge.kind == "not_ok":
            colored.setdefault(BROKEN if edge.standing is Edge.BROKEN else NOT_OK, []).append(str(place))
    for left in graph.left_out:
        if left.is_crowd and left.relation is Relation.DEPENDENTS:
            yield f"j{left.job_id} --- {_name_of_more(left)}"
        elif left.is_crowd and left.relation is Relation.UPSTREAMS:
            yield f"{_name_of_more(left)} --- j{left.job_id}"
    for looks, places in colored.items():
        yield f"linkStyle {','.join(places)} {looks}"


def _quoted(lines: Iterable[str], ascii_only: bool) -> str:
    return '"' + "<br/>".join(_escaped(line, ascii_only) for line in lines) + '"'


def _escaped(text: str, ascii_only: bool) -> str:
    """All but plain characters by number: quotes, tags, backticks and `%%{init}` mean something to Mermaid.

    Its lexer also looks for `direction TB` in any line, quoted or not."""
    return "".join(_escaped_character(one, ascii_only) for one in clean(text)).replace("direction ", "direction#32;")


def _escaped_character(one: str, ascii_only: bool) -> str:
    is_letter = one > "\x7f" and one.isalnum() and one not in SENTINELS
    return one if one in PLAIN or (is_letter and not ascii_only) else f"#{ord(one)};"
