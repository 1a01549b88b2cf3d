"""The parts of `sqljobs demo` that need no queue: parsing, cutting a tree into jobs, figures, picture, eject."""

import ast
import runpy
import sysconfig
import xml.dom.minidom
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.demo.eject import eject
from sqljobs.demo.handlers import Facts, index_package, inspect_source, merge_results
from sqljobs.demo.pipeline import (
    FOLDERS,
    NAME_LENGTH,
    PARTS,
    WEIGHTS,
    Part,
    Source,
    build_specs,
    cut,
    deal,
    find_sources,
)
from sqljobs.demo.summary import fair_shares, measure, mishaps_of, timeline_of
from sqljobs.demo.timeline import TimelineAttempt, assign_rows, tick_seconds, timeline_svg
from sqljobs.schema.errors import InvalidJob

SOURCE = b'''"""A module."""
import os, os.path
from json import loads
from . import sibling

class Box:
    """A box."""
    async def open(self):
        def inner():
            return 1
        if os:
            import re
        return inner

def last(): pass'''


def test_counts_of_one_file() -> None:
    facts = inspect_source(SOURCE, "box.py")
    assert (facts.files, facts.lines, facts.functions, facts.classes) == (1, 15, 3, 1)
    assert (facts.documented, facts.definitions, facts.unreadable) == (2, 5, 0)
    assert facts.imports == {"os": 1, "json": 1, "re": 1}
    assert facts.longest[0] == {"function": "open", "file": "box.py", "line": 8, "lines": 6}


@pytest.mark.parametrize("source", [b"def (", b"x = '\x00'", b"\xff\xfe", b"(" * 5000])
def test_what_python_cannot_parse_is_counted(source: bytes) -> None:
    assert inspect_source(source, "bad.py") == Facts(files=1, lines=1, unreadable=1)


def test_the_walk_over_statements_misses_nothing() -> None:
    for file in sorted(Path(sysconfig.get_path("stdlib"), "asyncio").glob("*.py")):
        source = file.read_bytes()
        nodes = list(ast.walk(ast.parse(source)))
        facts = inspect_source(source, file.name)
        assert facts.functions == sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) for n in nodes)
        assert facts.classes == sum(isinstance(n, ast.ClassDef) for n in nodes)


def test_index_and_merge_add_up(tmp_path: Path) -> None:
    (tmp_path / "box.py").write_bytes(SOURCE)
    (tmp_path / "bad.py").write_bytes(b"def (\n")
    one = index_package(tmp_path, "one", ["box.py", "bad.py", "gone.py"])
    two = index_package(tmp_path, "two", ["box.py"])
    assert (one["name"], one["files"], one["lines"], one["unreadable"]) == ("one", 3, 16, 2)
    merged = merge_results([one, two])
    assert merged["totals"]["parts"] == 2
    assert merged["totals"]["lines"] == one["lines"] + two["lines"]
    assert merged["largest"] == [{"name": "one", "lines": 16}, {"name": "two", "lines": 15}]
    assert merged["most_imported"][0] == {"name": "json", "files": 2}
    assert [f["function"] for f in merged["longest_functions"][:2]] == ["open", "open"]


names = st.text("abcdef", min_size=1, max_size=4)
trees = st.dictionaries(
    st.lists(names, min_size=1, max_size=4).map(tuple), st.integers(0, 50_000), min_size=1, max_size=150
)


@given(trees)
def test_every_file_is_in_exactly_one_part(tree: dict[tuple[str, ...], int]) -> None:
    sources = [Source((*folders[:-1], folders[-1] + ".py"), size) for folders, size in sorted(tree.items())]
    parts = cut(sources)
    assert sorted(file for part in parts for file in part.files) == sorted("/".join(s.path) for s in sources)
    assert len({part.name for part in parts}) == len(parts)
    assert all(0 < len(part.name) <= NAME_LENGTH + 5 and part.name == part.name.strip() for part in parts)
    assert len(parts) <= FOLDERS + 4 * PARTS


@given(st.lists(st.integers(0, 10_000), max_size=80))
def test_groups_get_about_the_same_number_of_bytes(sizes: list[int]) -> None:
    dealt = deal([Part(f"p{n}", (), size) for n, size in enumerate(sizes)])
    loads = [sum(part.size for part, group in dealt if group == wanted) for wanted in WEIGHTS]
    assert len(dealt) == len(sizes)
    assert max(loads) - min(loads) <= max(sizes, default=0)


def test_the_standard_library_makes_a_good_demo() -> None:
    parts = cut(find_sources(Path(sysconfig.get_path("stdlib"))))
    assert 30 <= len(parts) <= 80
    assert max(part.size for part in parts) > 20 * min(part.size for part in parts)


def test_finds_sources_but_nothing_installed_hidden_or_linked(tmp_path: Path) -> None:
    kept = ["a.py", "pkg/b.py", "pkg/sub/c.py"]
    for name in [*kept, "site-packages/x.py", ".git/x.py", "pkg/__pycache__/x.py", "env/lib/x.py", "a.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    (tmp_path / "env/pyvenv.cfg").touch()
    (tmp_path / "bad\nname.py").touch()
    (tmp_path / "link.py").symlink_to("a.py")
    assert ["/".join(source.path) for source in find_sources(tmp_path)] == kept


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_specs_of_a_run(count: int) -> None:
    *parts, merge = build_specs(Path("/src"), [Part(f"p{n}", ("a.py",), n) for n in range(count)])
    assert list(merge.given["after"]) == parts
    mishaps = [spec.args["mishap"] for spec in parts if spec.args and spec.args.get("mishap")]
    assert mishaps == ["raise", "kill"][:count]
    assert {spec.given["group"]: spec.given["weight"] for spec in parts}.items() <= WEIGHTS.items()
    assert len({spec.given["key"] for spec in [*parts, merge]}) == count + 1


attempts = st.builds(
    TimelineAttempt,
    name=st.text(max_size=30),
    group=st.text(max_size=30),
    weight=st.integers(1, 9),
    attempt=st.integers(1, 5),
    cause=st.sampled_from(["done", "error", "signal", "<&>"]),
    start=st.floats(0, 100),
    end=st.floats(0, 100),
).map(lambda a: a if a.start <= a.end else TimelineAttempt(**{**vars(a), "start": a.end, "end": a.start}))


@given(st.lists(attempts, max_size=30), st.text(max_size=30))
def test_the_picture_is_valid_xml_whatever_the_text(many: list[TimelineAttempt], title: str) -> None:
    document = xml.dom.minidom.parseString(timeline_svg(many, title).encode())
    assert document.documentElement is not None
    assert len(document.getElementsByTagName("title")) == len(many)


@given(st.lists(attempts, max_size=30))
def test_rows_never_overlap_and_are_as_few_as_can_be(many: list[TimelineAttempt]) -> None:
    placed = assign_rows(many)
    assert len(placed) == len(many)
    for row in {row for row, _ in placed}:
        mine = [attempt for place, attempt in placed if place == row]
        assert all(a.end <= b.start for a, b in pairwise(mine))
    busiest = max((sum(b.start <= a.start < b.end for b in many) for a in many), default=0)
    instants = sum(a.start == a.end for a in many)
    assert len({row for row, _ in placed}) <= busiest + instants


@given(st.floats(0.001, 1e6))
def test_ticks_are_round_and_few(span: float) -> None:
    step = tick_seconds(span)
    assert 1.9 <= span / step <= 10.001


def job(id: int, group: str, weight: int, *attempts: tuple[float, float, str]) -> Any:
    zero = datetime(2026, 11, 29, 12, tzinfo=UTC)
    rows = [
        SimpleNamespace(
            attempt=number,
            cause=cause,
            claimed_at=zero + timedelta(seconds=start),
            started_at=zero + timedelta(seconds=start),
            ended_at=zero + timedelta(seconds=end),
            signal="SIGKILL" if cause == "signal" else None,
            error="Traceback\nValueError: no" if cause == "error" else None,
            cpu_seconds=0.25,
            max_rss_bytes=1000 * number,
        )
        for number, (start, end, cause) in enumerate(attempts, 1)
    ]
    info = SimpleNamespace(id=id, group=group, weight=weight, state="done", attempts=rows)
    info.args, info.result = {"name": f"j{id}"}, {"files": 2, "lines": 30}
    return info


def test_costs_and_mishaps_of_a_retried_job() -> None:
    info = job(7, "gold", 3, (0, 1, "error"), (1.5, 2, "signal"), (2.25, 4, "done"))
    cost = measure(info)
    assert (cost.attempts, cost.cpu_seconds, cost.seconds, cost.max_rss_bytes) == (3, 0.75, 3.25, 3000)
    raised, killed = mishaps_of(info)
    assert (raised.mended, killed.mended) == (False, True)
    assert (raised.what, raised.handled) == ("raised ValueError: no", "attempt 2 began 0.50 s later and ended signal")
    assert (killed.what, killed.handled) == (
        "lost its process to SIGKILL",
        "attempt 3 began 0.25 s later and ended done",
    )


def test_shares_are_measured_while_every_group_has_work() -> None:
    jobs = [job(n, "gold", 2, (n, n + 1, "done")) for n in range(4)]
    jobs += [job(9 + n, "gold", 2, (n, n + 1, "done")) for n in range(4)]
    jobs += [job(20 + n, "bronze", 1, (n, n + 1, "done")) for n in range(8)]
    jobs += [job(99, "merge", 1, (8, 9, "done"))]
    gold, bronze = fair_shares(timeline_of(jobs))
    assert (gold.group, gold.weight, gold.jobs, gold.ended) == ("gold", 2, 8, 4.0)
    assert gold.held == pytest.approx(2 / 3) == gold.promised
    assert bronze.held == pytest.approx(1 / 3) == bronze.promised


def test_eject_writes_files_that_stand_alone_and_never_overwrites(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "start"
    written = eject(folder)
    assert [path.name for path in written] == ["handlers.py", "pipeline.py", "README.md"]
    assert "sqljobs.demo" not in "".join(path.read_text() for path in written)
    assert "from handlers import index_package" in (folder / "pipeline.py").read_text()
    assert "index_package" in runpy.run_path(str(folder / "handlers.py"))
    (folder / "handlers.py").write_text("mine")
    (folder / "pipeline.py").unlink()
    with pytest.raises(InvalidJob, match=r"handlers\.py is there already"):
        eject(folder)
    assert (folder / "handlers.py").read_text() == "mine"
    assert not (folder / "pipeline.py").exists()


def test_eject_into_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidJob, match="cannot be written to"):
        eject(tmp_path / "file")
