"""Strict readers of the Graphviz and Mermaid that we write: they take no other forms, and give back what is meant."""

import re
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Read:
    """What a text draws. `inside`: by node, the subgraph that it stands in. Labels as lines of plain text."""

    labels: dict[str, list[str]] = field(default_factory=dict)
    looks: dict[str, str] = field(default_factory=dict)
    inside: dict[str, str | None] = field(default_factory=dict)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # line and head

    def add(self, name: str, label: list[str], looks: str, inside: str | None) -> None:
        assert name not in self.labels, f"{name} is there twice"
        self.labels[name], self.looks[name], self.inside[name] = label, looks, inside


DOT_TOKEN = re.compile(
    r'\s*(?:(?P<quoted>"(?:[^"\\\n]|\\[\\"n])*")|(?P<word>[A-Za-z_][A-Za-z_0-9]*|[0-9]+)|(?P<mark>->|[{}\[\]=;,]))'
)


def read_dot(text: str) -> Read:
    """Read `digraph NAME { ... }` of the DOT language: nodes, edges, attributes, clusters."""
    tokens: list[str] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = DOT_TOKEN.match(text, at)
        assert found, f"no DOT: {text[at : at + 60]!r}"
        tokens.append(found[0].strip() if found["quoted"] is None else found["quoted"])
        at = found.end()
    assert tokens[:3] == ["digraph", "sqljobs", "{"]
    assert tokens[-1] == "}"
    read = Read()
    stack: list[str | None] = [None]
    tokens = tokens[3:]
    while tokens:
        word = tokens.pop(0)
        if word == "}":
            stack.pop()
        elif word == "subgraph":
            stack.append(tokens.pop(0))
            assert tokens.pop(0) == "{"
        elif tokens[0] == "=":
            assert tokens[2] == ";"
            del tokens[:3]
        else:
            target = None
            if tokens[0] == "->":
                target = tokens[1]
                del tokens[:2]
            attributes = _attributes(tokens)
            if target is not None:
                read.edges[word, target] += 1
                read.kinds[word, target] = attributes.get("style", ""), attributes["arrowhead"]
            elif word != "node":
                read.add(word, _dot_text(attributes["label"]), attributes.get("fillcolor", ""), stack[-1])
    assert stack == []
    assert {end for edge in read.edges for end in edge} <= read.labels.keys()
    return read


def _attributes(tokens: list[str]) -> dict[str, str]:
    assert tokens.pop(0) == "["
    found: dict[str, str] = {}
    while True:
        name, equals, value, mark = tokens[:4]
        del tokens[:4]
        assert equals == "="
        assert name not in found
        found[name] = value
        if mark == "]":
            assert tokens.pop(0) == ";"
            return found
        assert mark == ","


def _dot_text(quoted: str) -> list[str]:
    """Lines of a label: escapes of strings and of labels, then entities."""
    assert quoted[0] == quoted[-1] == '"'
    meant = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
    plain = re.sub(r'\\[\\"n]', lambda found: meant[found[0]], quoted[1:-1])
    assert re.fullmatch(r"(?:[^&]|&amp;|&#[0-9]+;)*", plain, re.DOTALL), plain
    # Not html.unescape, which leaves out characters that are reserved.
    return re.sub("&(?:amp|#([0-9]+));", lambda found: chr(int(found[1])) if found[1] else "&", plain).split("\n")


LABEL = r'"(?P<label>[^"]*)"'
IN_A_FRAME = r'"(?P<framed>[^"]*)"'
BOX_NAME = r"(?P<name>j\d+|rest|more_[a-z]+_\d+)"
STATEMENTS = {
    "comment": re.compile(r"%% [^\n{]*"),
    "begin": re.compile(rf"subgraph (?P<name>j\d+)\[{LABEL}\]"),
    "end": re.compile(r"end"),
    "box": re.compile(rf"{BOX_NAME}(?:\[{LABEL}\]|\[\[{IN_A_FRAME}\]\]):::(?P<looks>[a-z]+)"),
    "edge": re.compile(
        r"(?P<start>\w+) (?P<line>--|-\.-)(?P<head>[>ox-])(?:\|(?P<word>any end|bad end)\|)? (?P<stop>\w+)"
    ),
    "class": re.compile(r"class (?P<name>j\d+) (?P<looks>[a-z]+)"),
    "classDef": re.compile(r"classDef [a-z]+ (?:fill|stroke)[a-z0-9:#,-]*"),
    "linkStyle": re.compile(
        r"linkStyle (?P<places>\d+(?:,\d+)*) stroke:#[0-9a-f]{6},stroke-(?:width:3px|dasharray:2 4)"
    ),
}


def read_mermaid(text: str) -> Read:
    """Read `flowchart TD`, one statement a line."""
    first, *lines, last = text.split("\n")
    assert (first, last) == ("flowchart TD", "")
    read = Read()
    stack: list[str | None] = [None]
    for line in lines:
        _check_what_mermaid_finds_anywhere(line)
        kind, found = next(
            (name, match) for name, form in STATEMENTS.items() if (match := form.fullmatch(line.strip())) is not None
        )
        if kind == "begin":
            read.add(found["name"], _mermaid_text(found["label"]), "", stack[-1])
            stack.append(found["name"])
        elif kind == "end":
            stack.pop()
        elif kind == "box":
            read.add(found["name"], _mermaid_text(found["label"] or found["framed"]), found["looks"], stack[-1])
        elif kind == "class" and not read.looks[found["name"]]:
            read.looks[found["name"]] = found["looks"]
        elif kind == "edge":
            ends = found["start"], found["stop"]
            read.edges[ends] += 1
            read.kinds[ends] = (found["word"] or found["line"]), found["head"]
        elif kind == "linkStyle":
            assert all(int(place) < sum(read.edges.values()) for place in found["places"].split(","))
    assert stack == [None]
    assert {end for edge in read.edges for end in edge} <= read.labels.keys()
    return read


def _check_what_mermaid_finds_anywhere(line: str) -> None:
    """What its preprocessor and lexer look for in a whole line, quoted or not."""
    for found_anywhere in (
        r"direction\s+(?:TB|TD|BT|RL|LR)",
        r"style.*:\S*#.*;",
        r"classDef.*:\S*#.*;",
        r"%%\s*\{",
        "[`ﬂß]",
    ):
        assert not re.search(found_anywhere, line), line


def _mermaid_text(label: str) -> list[str]:
    """Lines of a label: `#35;` is a character by its number, nothing else that could mean something is there."""
    lines = label.split("<br/>")
    for line in lines:
        bare = re.sub(r"#[0-9]+;", "", line)
        assert all(one.isalnum() or one in " _-.,()" for one in bare), line
    return [re.sub(r"#([0-9]+);", lambda found: chr(int(found[1])), line) for line in lines]
