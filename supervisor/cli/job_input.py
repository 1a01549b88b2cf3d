"""What `sqljobs enqueue` is given as text: files, stdin, JSON and NAME=VALUE, made into arguments and specs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.graph import KINDS
from sqljobs.schema.payloads import from_json
from sqljobs.schema.renderings import shown
from sqljobs.schema.specs import OPTIONS, JobSpec, check_request
from sqljobs.schema.values import check_amount, check_name, nearest
from sqljobs.worker_runtime.arguments import argument_from_text
from sqljobs.worker_runtime.enqueue import check_args
from sqljobs.worker_runtime.registry import JobType, defaults_of

KEYS = ("ref", "type", "args", *OPTIONS)
JobTypes = Mapping[str, JobType] | None


def read_source(name: str, what: str) -> str:
    """The text of a file, or of stdin for `-`. Raises `InvalidJob` when it cannot be read."""
    try:
        if name != "-":
            return Path(name).read_text("utf-8-sig")
        if sys.stdin is None:
            raise InvalidJob(f"{what}: stdin is closed: name a file")
        binary = getattr(sys.stdin, "buffer", None)
        return binary.read().decode("utf-8-sig") if binary is not None else sys.stdin.read()
    except OSError as error:
        raise InvalidJob(f"{what}: {name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidJob(f"{what}: {name} cannot be read: it is not UTF-8") from None


def known_type(job_type: str, known: JobTypes) -> JobType | None:
    """The type among those of --handlers; None without --handlers. Raises `InvalidJob` for one that is not there."""
    if known is None:
        return None
    if job_type not in known:
        raise InvalidJob(f"no handler is called {shown(job_type)}{nearest(job_type, known) or _listed(known)}")
    return known[job_type]


def _listed(known: Mapping[str, JobType]) -> str:
    return f"; there are {', '.join(sorted(known))}"


def read_args(source: str | None, pairs: Sequence[str], job_type: JobType | None) -> dict[str, Any] | None:
    """--args (JSON, @FILE or -) and over it each --arg NAME=VALUE. Raises `InvalidJob`."""
    args: dict[str, Any] = {}
    if source is not None:
        text = read_source(source.removeprefix("@"), "--args") if source[:1] == "@" or source == "-" else source
        stored = from_json(text, where="--args")
        if stored is not None and not isinstance(stored, dict):
            raise InvalidJob(f"--args must be a JSON object of arguments by name, not {shown(stored)}")
        args = stored or {}
    seen: set[str] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidJob(f"--arg must be NAME=VALUE, not {shown(pair)}")
        if name in seen:
            raise InvalidJob(f"--arg {shown(name)} is given twice")
        seen.add(name)
        args[name] = _plain(text) if job_type is None else argument_from_text(job_type.function, name, text)
    return args or None


def read_uses(pairs: Sequence[str]) -> dict[str, Decimal]:
    """Each --use NAME=AMOUNT; the name may hold = as well. Raises `InvalidJob`."""
    uses: dict[str, Decimal] = {}
    for pair in pairs:
        name, equals, amount = pair.rpartition("=")
        if not equals or not name:
            raise InvalidJob(f"--use must be NAME=AMOUNT, not {shown(pair)}")
        if name in uses:
            raise InvalidJob(f"--use {shown(name)} is given twice")
        uses[check_name("--use", name)] = check_amount(f"--use {shown(name)}", amount)
    return uses


def _plain(text: str) -> object:
    try:
        return from_json(text)
    except InvalidJob:
        return text


def parse_batch(text: str, known: JobTypes) -> tuple[list[str | None], list[JobSpec]]:
    """The refs and specs of JSON lines, in their order; `after` and its kind, and `parent`, may name any ref.

    Raises `InvalidJob`, naming the line, for anything that cannot be stored as asked."""
    entries: list[tuple[int, str | None, JobSpec, dict[str, list[Any]]]] = []
    by_ref: dict[str, JobSpec] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        with _of_line(number):
            ref, spec, after = _parse_line(line, known)
            if ref in by_ref:
                raise InvalidJob(f"the ref {shown(ref)} is taken by another line")
        if ref is not None:
            by_ref[ref] = spec
        entries.append((number, ref, spec, after))
    for number, _, spec, after in entries:
        with _of_line(number):
            # Into the list that the spec holds: a later line may be named, even in a circle, which enqueue refuses.
            for option, items in after.items():
                spec.given[option].extend(_resolved(option, item, by_ref) for item in items)
            if (parent := spec.given.get("parent")) is not None:
                spec.given["parent"] = _resolved("parent", parent, by_ref)  # type: ignore[index]
            check_request(spec, defaults_of, check_args)
    return [ref for _, ref, _, _ in entries], [spec for _, _, spec, _ in entries]


@contextmanager
def _of_line(number: int) -> Iterator[None]:
    try:
        yield
    except InvalidJob as error:
        raise InvalidJob(f"line {number}: {error}") from None


def _parse_line(line: str, known: JobTypes) -> tuple[str | None, JobSpec, dict[str, list[Any]]]:
    stored = from_json(line, where="it")
    if not isinstance(stored, dict):
        raise InvalidJob(f"it must be a JSON object with a type, not {shown(stored)}")
    for key in stored:
        if key not in KEYS:
            raise InvalidJob(f"unknown key {shown(key)}{nearest(key, KEYS)}")
    ref, job_type = stored.pop("ref", None), stored.pop("type", None)
    if ref is not None and (not isinstance(ref, str) or not ref):
        raise InvalidJob(f"ref must be text, not {shown(ref)}")
    if not isinstance(job_type, str):
        raise InvalidJob('it needs a type, such as {"type": "resize", "args": {"width": 64}}')
    if stored.get("container") is not True:
        known_type(job_type, known)
    after = {option: stored.pop(option) for option in KINDS if stored.get(option) is not None}
    for option, items in after.items():
        if not isinstance(items, list):
            raise InvalidJob(f"{option} must be a list of refs and ids, not {shown(items)}")
    args = stored.pop("args", None)
    return ref, JobSpec(job_type, args, **stored, **{option: [] for option in after}), after


def _resolved(option: str, item: Any, by_ref: Mapping[str, JobSpec]) -> int | JobSpec:
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if not isinstance(item, str):
        raise InvalidJob(f"{option} must hold refs (text) and ids (numbers), not {shown(item)}")
    if item not in by_ref:
        raise InvalidJob(f"{option}: no line has the ref {shown(item)}{nearest(item, by_ref)}")
    return by_ref[item]
