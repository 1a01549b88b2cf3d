"""The two job types of the demo: index one part of a source tree, and merge what all parts found.
They only read files; everything that they learn is in their result."""

from __future__ import annotations

import ast
import os
import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqljobs

TOP = 5
"""How many entries each "top" list of the merged index has."""

FEW = 25
"""Parts with fewer definitions than this are left out of the docstring ranking."""


@dataclass
class Facts:
    """What was counted in one source file, or in many after `add`."""

    files: int = 0
    lines: int = 0
    functions: int = 0
    classes: int = 0
    definitions: int = 0
    documented: int = 0
    unreadable: int = 0
    imports: Counter[str] = field(default_factory=Counter)
    longest: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Facts) -> None:
        """Count `other` in."""
        for name in ("files", "lines", "functions", "classes", "definitions", "documented", "unreadable"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.imports.update(other.imports)
        self.longest = longest_of(self.longest + other.longest)


def longest_of(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The longest `TOP` of `{"function", "file", "line", "lines"}`, longest first."""
    return sorted(functions, key=lambda f: (-f["lines"], f["file"], f["line"]))[:TOP]


def inspect_source(source: bytes, file: str) -> Facts:
    """Parse one file and count what is in it; of one that Python cannot parse, only the lines."""
    facts = Facts(files=1, lines=source.count(b"\n") + (not source.endswith(b"\n") and bool(source)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        facts.unreadable = 1
        return facts
    imported: set[str] = set()
    for node in statements(tree):
        match node:
            case ast.Import():
                imported.update(alias.name.partition(".")[0] for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                imported.add(module.partition(".")[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                facts.functions += 1
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                facts.longest.append({"function": node.name, "file": file, "line": node.lineno, "lines": lines})
            case ast.ClassDef():
                facts.classes += 1
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            facts.definitions += 1
            facts.documented += ast.get_docstring(node, clean=False) is not None
    facts.imports.update(imported)
    facts.longest = longest_of(facts.longest)
    return facts


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The tree and every statement in it; expressions, most of a tree, hold nothing that is counted."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, block, None)
            if isinstance(inside, list):
                waiting.extend(inside)


def have_mishap(mishap: str | None) -> None:
    """Fail on purpose, at the first attempt only: `"raise"` an error, or `"kill"` this very process."""
    if mishap is None or sqljobs.current_job().attempt > 1:
        return
    if mishap == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("made to fail at its first attempt")


@sqljobs.handler("index_package", timeout="10m", backoff=sqljobs.exponential(first=0.2, cap=1))
def index_package(root: Path, name: str, files: list[str], mishap: str | None = None) -> dict[str, Any]:
    """Index `files` (relative to `root`); `mishap` makes the first attempt fail half-way."""
    total = Facts()
    for position, file in enumerate(files):
        if position == len(files) // 2:
            have_mishap(mishap)
        try:
            source = (root / file).read_bytes()
        except OSError:
            total.add(Facts(files=1, unreadable=1))
            continue
        total.add(inspect_source(source, file))
    return {"name": name, **vars(total), "imports": dict(total.imports.most_common())}


@sqljobs.handler("merge_index", timeout="10m")
def merge_index() -> dict[str, Any]:
    """Add up the results of all jobs that this one waited for."""
    return merge_results([upstream.result for upstream in sqljobs.current_job().upstream])


def merge_results(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Totals and top lists over the results of `index_package`."""
    total = Facts()
    for part in parts:
        counts = {name: value for name, value in part.items() if name not in ("name", "imports")}
        total.add(Facts(**counts, imports=Counter(part["imports"])))
    ranked = sorted(
        (part for part in parts if part["definitions"] >= FEW),
        key=lambda part: (-part["documented"] / part["definitions"], part["name"]),
    )
    totals = {name: value for name, value in vars(total).items() if name not in ("imports", "longest")}
    return {
        "totals": {"parts": len(parts), **totals, "modules_imported": len(total.imports)},
        "largest": [
            {"name": part["name"], "lines": part["lines"]}
            for part in sorted(parts, key=lambda part: (-part["lines"], part["name"]))[:TOP]
        ],
        "longest_functions": total.longest,
        "most_imported": [
            {"name": name, "files": count}
            for name, count in sorted(total.imports.items(), key=lambda item: (-item[1], item[0]))[:TOP]
        ],
        "best_documented": [
            {"name": part["name"], "share": round(part["documented"] / part["definitions"], 3)} for part in ranked[:TOP]
        ],
    }
