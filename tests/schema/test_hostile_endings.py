"""What a handler may return or raise that no database holds: the attempt ends all the same, and can be read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest

import sqljobs
from sqljobs.schema.transactions import Database
from sqljobs.worker_runtime.arguments import BoundCall
from sqljobs.worker_runtime.child import call_handler
from sqljobs.worker_runtime.registry import JobType
from tests.schema.playing import end, put, row, set_off, tries

BIG = "🐘" * (5 * 1024 * 1024)  # 20 MiB
KIB = 1024


class Hostile(Exception):
    """An exception none of whose texts can be had."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class HostileToAll(BaseException):
    """The same, and it hides what it is and where it came from."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__

    @property  # type: ignore[misc]  # the point of it
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise ZeroDivisionError

    @property
    def __traceback__(self) -> Any:  # type: ignore[override]  # the same
        raise ZeroDivisionError


class NoString(Exception):
    """Its text is no text."""

    def __str__(self) -> Any:
        return 7


class Shy:
    """A result that cannot be shown."""

    def __repr__(self) -> str:
        raise SystemExit(3)

    __str__ = __repr__


@dataclass
class Trap:
    """A dataclass one field of which cannot be read."""

    value: int

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            raise KeyboardInterrupt
        return super().__getattribute__(name)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


RESULTS: dict[str, Callable[[], Any]] = {
    "NUL": lambda: {"a": "x\0y"},
    "NUL in a key": lambda: {"x\0y": 1},
    "lone surrogate": lambda: ["\ud800"],
    "surrogate halves": lambda: "\ud83d\udc18",
    "NaN": lambda: {"a": [float("nan")]},
    "infinity": lambda: float("inf"),
    "20 MiB": lambda: BIG,
    "20 MiB in pieces": lambda: [BIG[: 1 << 16]] * 80,
    "deep": lambda: deep(100_000),
    "circle": endless,
    "an object": Shy,
    "bytes": lambda: b"x",
    "a set": lambda: {1},
    "integer keys": lambda: {1: 2},
    "too many digits": lambda: 10**5000,
    "a class": lambda: Trap,
}


def fail(error: BaseException) -> NoReturn:
    raise error


def with_note(error: BaseException, note: Any) -> BaseException:
    error.__notes__ = note  # any object may stand there
    return error


def chain(length: int) -> BaseException:
    error: BaseException = ValueError("first")
    for number in range(length):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = following
    return error


def recurse() -> None:
    recurse()


ERRORS: dict[str, Callable[[], Any]] = {
    "NUL": lambda: fail(ValueError("x\0y\x1b[31m")),
    "lone surrogate": lambda: fail(ValueError("\ud800 \udfff")),
    "20 MiB": lambda: fail(ValueError(BIG)),
    "20 MiB of NUL": lambda: fail(ValueError("\0" * len(BIG))),
    "20 MiB of lines": lambda: fail(ValueError("🐘\n" * (4 * 1024 * 1024))),
    "raising __str__": lambda: fail(Hostile()),
    "raising everything": lambda: fail(HostileToAll()),
    "__str__ without text": lambda: fail(NoString()),
    "notes": lambda: fail(with_note(ValueError("x"), ["\0", BIG, Hostile(), 7])),
    "no notes": lambda: fail(with_note(ValueError("x"), Hostile())),
    "group": lambda: fail(ExceptionGroup("g\0", [ValueError(BIG), ExceptionGroup("h", [Hostile()])])),
    "chain": lambda: fail(chain(2000)),
    "recursion": recurse,
    "SystemExit": lambda: fail(SystemExit(BIG)),
    "KeyboardInterrupt": lambda: fail(KeyboardInterrupt()),
    "GeneratorExit": lambda: fail(GeneratorExit()),
    "MemoryError": lambda: fail(MemoryError()),
    "a trap in the result": lambda: Trap(1),
    "Retry that never comes": lambda: fail(sqljobs.Retry(after=float("nan"))),
}

ENDINGS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "Fail": (lambda: fail(sqljobs.Fail("\0\ud800" + BIG)), "fail", "failed"),
    "Fail without text": (lambda: fail(sqljobs.Fail(Hostile())), "fail", "failed"),  # type: ignore[arg-type]
    "Cancel": (lambda: fail(sqljobs.Cancel("\0\ud800" + BIG)), "cancelled", "cancelled"),
    "Retry": (lambda: fail(sqljobs.Retry(reason="\0" + BIG)), "error", "scheduled"),
    "Retry in 100,000 years": (lambda: fail(sqljobs.Retry(after=3.2e12)), "error", "scheduled"),
    "Snooze for 100,000 years": (lambda: fail(sqljobs.Snooze(after=3.2e12)), "snoozed", "scheduled"),
}


def attempt(database: Database, handler: Callable[[], Any], cause: str, state: str) -> str:
    """One whole attempt of `handler`; returns the error that was written."""
    (one,) = set_off(database, put(database))
    outcome = call_handler(JobType("t", handler), BoundCall((), {}))
    assert outcome.cause == cause
    assert end(database, one.fence, outcome) is not None
    assert row(database, one.job_id).state == state
    (written,) = tries(database, one.job_id)
    assert written.cause == cause
    with database.engine.begin() as conn:
        info = sqljobs.get_job(conn, one.job_id)
    shown = json.dumps(info.as_json(), ensure_ascii=False, allow_nan=False)
    assert len(shown.encode()) < 400 * KIB
    error = written.error
    assert isinstance(error, str)
    assert error.isprintable() or set(filter(lambda c: not c.isprintable(), error)) <= set("\n\t\u2028\U0010ffff\u00a0")
    assert "\0" not in error
    return error


def test_results(database: Database) -> None:
    for name, handler in RESULTS.items():
        error = attempt(database, handler, "bad_result", "failed")
        assert error.startswith("result"), name
        assert "\n" not in error, name
        assert len(error.encode()) < KIB, name


def test_errors(database: Database) -> None:
    for name, handler in ERRORS.items():
        error = attempt(database, handler, "error", "scheduled")
        assert len(error.encode()) <= 64 * KIB, name
        assert "Traceback" in error or "traceback" in error or name == "raising everything", name


def test_endings(database: Database) -> None:
    for name, (handler, cause, state) in ENDINGS.items():
        error = attempt(database, handler, cause, state)
        assert len(error.encode()) <= 64 * KIB, name


def test_asynchronous_handlers_end_in_the_same_way(database: Database) -> None:
    async def good() -> dict[str, int]:
        return {"a": 1}

    async def bad() -> None:
        raise Hostile

    async def nul() -> str:
        return "\0"

    (one,) = set_off(database, put(database))
    assert end(database, one.fence, call_handler(JobType("t", good), BoundCall((), {}))) is not None
    assert row(database, one.job_id).result == {"a": 1}
    attempt(database, bad, "error", "scheduled")
    attempt(database, nul, "bad_result", "failed")


@pytest.mark.parametrize("size", [4 * 1024 * KIB - 2, 4 * 1024 * KIB - 5])
def test_results_of_nearly_four_mebibytes_are_kept(database: Database, size: int) -> None:
    text = "🐘" * (size // 4) + "x" * (size % 4)
    (one,) = set_off(database, put(database))
    assert end(database, one.fence, call_handler(JobType("t", lambda: text), BoundCall((), {}))) is not None
    assert row(database, one.job_id).result == text
