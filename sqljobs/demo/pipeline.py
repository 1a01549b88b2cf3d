"""The demo's pipeline: cut a source tree into parts, and enqueue one job for each and one that merges them.
It decides what the jobs are; it runs none of them."""

from __future__ import annotations

import argparse
import os
import secrets
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from sqlalchemy.orm import Session

import sqljobs
from sqljobs.demo.handlers import index_package, merge_index

WEIGHTS = {"gold": 3, "silver": 2, "bronze": 1}
"""The groups, as if three customers on different plans shared the machine, and what each weighs."""

PARTS = 36
"""A part holds at most this fraction of all bytes, if it can be cut: a few dozen jobs, whatever the tree."""

FOLDERS = 60
"""Up to this many folders at the top, each is a part of its own; above it, small neighbours share one."""

NAME_LENGTH = 120
"""Names become part of keys, which hold at most 200 characters."""

SKIPPED = {"__pycache__", "site-packages", "dist-packages", "node_modules"}


@dataclass(frozen=True)
class Source:
    """One file: its path below the root, in pieces, and its size in bytes."""

    path: tuple[str, ...]
    size: int


@dataclass(frozen=True)
class Part:
    """The files of one job, relative to the root; `size` in bytes."""

    name: str
    files: tuple[str, ...]
    size: int


def find_sources(root: Path) -> list[Source]:
    """All Python files below `root` in order, without installed packages, hidden folders and links."""
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [
            name
            for name in subfolders
            if name not in SKIPPED
            and not name.startswith(".")
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        ]
        for name in names:
            file = Path(folder, name)
            if name.endswith(".py") and str(file).isprintable() and file.is_file() and not file.is_symlink():
                found.append(Source(file.relative_to(root).parts, file.stat().st_size))
    return sorted(found, key=lambda source: source.path)


def cut(sources: list[Source]) -> list[Part]:
    """Parts of very different size: a package each, loose modules bundled, what is too large cut again."""
    most = max(1, sum(source.size for source in sources) // PARTS)
    folders = {source.path[0] for source in sources if len(source.path) > 1}
    whole = folders if len(folders) <= FOLDERS else set()
    return with_own_names(cut_folder((), sources, most, whole))


def with_own_names(parts: list[Part]) -> list[Part]:
    """Tell namesakes (a module beside a folder of its name) apart: of two equal keys, one would make no job."""
    taken: set[str] = set()
    for place, part in enumerate(parts):
        name, number = part.name, 1
        while name in taken:
            number += 1
            name = f"{part.name} ({number})"
        taken.add(name)
        parts[place] = replace(part, name=name)
    return parts


def cut_folder(above: tuple[str, ...], sources: list[Source], most: int, whole: set[str]) -> list[Part]:
    """The parts of one folder. Entries named in `whole` share no part with their neighbours."""
    parts: list[Part] = []
    run: list[Source] = []
    depth = len(above)

    def close_run() -> None:
        if run:
            parts.append(Part(name_run(above, run, len(run) == len(sources)), *contents(run)))
            run.clear()

    for entry, members in groupby(sources, key=lambda source: source.path[depth]):
        inside = list(members)
        size = sum(source.size for source in inside)
        is_folder = len(inside[0].path) > depth + 1
        if is_folder and size > 2 * most:
            parts.extend(cut_folder((*above, entry), inside, most, set()))
        elif is_folder and entry in whole:
            parts.append(Part(entry[:NAME_LENGTH], *contents(inside)))
        else:
            if sum(source.size for source in run) + size > most:
                close_run()
            run.extend(inside)
    close_run()
    return parts


def contents(sources: list[Source]) -> tuple[tuple[str, ...], int]:
    """The files of a part and their size in bytes."""
    return tuple("/".join(source.path) for source in sources), sum(source.size for source in sources)


def name_run(above: tuple[str, ...], run: list[Source], is_all: bool) -> str:
    """`package` for all of a folder, `package.entry` for one entry of it, `package: first..last` for more."""
    folder = ".".join(above)
    if folder and is_all:
        return folder[:NAME_LENGTH]
    first, last = (source.path[len(above)].removesuffix(".py") for source in (run[0], run[-1]))
    if first == last:
        return ".".join((*above, first))[:NAME_LENGTH]
    return f"{folder}: {first}..{last}".removeprefix(": ")[:NAME_LENGTH]


def deal(parts: list[Part]) -> list[tuple[Part, str]]:
    """Largest part first, each with its group: every group gets about the same number of bytes."""
    load = dict.fromkeys(WEIGHTS, 0)
    dealt = []
    for part in sorted(parts, key=lambda part: (-part.size, part.name)):
        group = min(load, key=lambda name: load[name])
        load[group] += part.size
        dealt.append((part, group))
    return dealt


def build_specs(root: Path, parts: list[Part]) -> list[sqljobs.JobSpec]:
    """One spec a part and, last, the merge that waits for all. One part fails once, and one dies once."""
    stamp = secrets.token_hex(2)  # keys are unique among open jobs; two runs must not share theirs
    mishaps = dict(zip(range(len(parts) // 4, len(parts)), ("raise", "kill"), strict=False))
    specs = [
        index_package.spec(root=root, name=part.name, files=list(part.files), mishap=mishaps.get(place)).options(
            group=group, weight=WEIGHTS[group], key=f"{part.name} #{stamp}"
        )
        for place, (part, group) in enumerate(deal(parts))
    ]
    merge = merge_index.spec().options(after=list(specs), group="merge", key=f"merge #{stamp}")
    return [*specs, merge]


def main() -> None:
    """Enqueue an index of the folder named on the command line."""
    arguments = argparse.ArgumentParser(description=main.__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--url", default=os.environ.get("SQLJOBS_URL", "sqlite:///sqljobs.db"))
    given = arguments.parse_args()
    root = given.folder.resolve()
    engine = sqljobs.create_engine(given.url)
    with Session(engine) as session, session.begin():  # the jobs exist if and only if this commits
        ids = sqljobs.enqueue_many(session, build_specs(root, cut(find_sources(root))))
    print(f"{len(ids) - 1} jobs and the merge, job {ids[-1]}. When it is done: sqljobs show {ids[-1]}")


if __name__ == "__main__":
    main()
