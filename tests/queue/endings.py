"""The table of endings: what a handler does, what is done to it, and what the rows are to say afterwards."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tests.queue.conftest import full_size


class Act(StrEnum):
    """What is done to a job once its handler runs."""

    NOTHING = ""
    CANCEL = "cancel"
    CANCEL_NOW = "cancel --now"
    KILL = "SIGKILL"
    TAKE = "its lease is taken by another"
    STARVE = "no child can be started"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True)
class End:
    """How a job is to end. `counts`: `attempt` and `max_attempts`.

    From `exit_code` on it is of the first attempt: `error`, `dump` and `tail` are parts of the error, the stacks and
    what was printed (None: there is none). `...`: whatever."""

    state: Any
    causes: Any
    counts: tuple[int, int] = (1, 1)
    result: object = None
    exit_code: Any = 0
    signal: Any = None
    error: Any = None
    dump: Any = None
    tail: Any = ...


@dataclass(frozen=True)
class Ending:
    """One row. `how` is an argument of the handler. `is_hard`: one of those that are tried on every database."""

    type: str
    how: str
    end: End
    act: Act = Act.NOTHING
    options: tuple[tuple[str, object], ...] = ()
    is_hard: bool = False

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.type, self.how, self.act)))


WELL = End("done", ("done",), result="well")
ERROR = End("failed", ("error",), error="", tail="Traceback")
TIMEOUT = "stopped: it ran longer than its timeout"
STOPPED = End("failed", ("timeout",), error=TIMEOUT, dump="in stay")  # by `Stopping`
KILLED = End("failed", ("timeout",), exit_code=None, signal="SIGKILL", error=f"{TIMEOUT} (killed by", dump="in stay")
CANCELLED = End("cancelled", ("cancelled",), error="stopped: the job was cancelled", dump="in stay")
SLOW = (("timeout", 5), ("priority", 10))  # long enough to be reached before; and what takes long begins early
EARLY = (("priority", 10),)
THREE = (("max_attempts", 3),)
SEVERAL = (("max_attempts", 3), ("timeout", 5), ("priority", 10))


def by_error(how: str, error: str, **changes: Any) -> Ending:
    return Ending("ends_by", how, replace(ERROR, error=error, **changes))


def by_signal(how: str, name: str, error: str, **changes: Any) -> Ending:
    said = {
        "causes": ("signal",),
        "signal": name,
        "exit_code": None,
        "error": f"killed by {name}{error}",
        "tail": f"ends by {how}\n",
    }
    return Ending("ends_by", how, End("failed", **{**said, **changes}))


def by_exit(how: str, code: int, error: str, tail: str) -> Ending:
    # `fail_on` names this cause.
    end = End("failed", ("exit",), (1, 3), exit_code=code, error=f"ended with exit code {code} {error}", tail=tail)
    return Ending("ends_by", how, end, options=THREE)


def late(job: str, end: End, *, is_hard: bool = False) -> Ending:
    """Of ladder_handlers: over its timeout."""
    return Ending(job, "", end, options=SLOW, is_hard=is_hard)


def large(job: str, end: End, *, is_hard: bool = False) -> Ending:
    """Over its memory."""
    return Ending(job, "", end, options=EARLY, is_hard=is_hard)


def refused(how: str, error: str) -> Ending:
    return Ending("gives", how, End("failed", ("bad_result",), (1, 3), error=error, tail=...), options=THREE)


def disturbed(how: str, *, is_hard: bool = False) -> Ending:
    return Ending("disturbs", how, WELL, is_hard=is_hard)


THE_HANDLERS_OWN = (
    by_error("ValueError", "ValueError: as asked"),
    by_error("sys.exit(0)", "SystemExit: 0"),
    by_error("KeyboardInterrupt", "KeyboardInterrupt"),
    by_error("BaseException", "BaseException: of no class"),
    by_error("Stopping", "Stopping: unasked"),
    by_error("CancelledError", "CancelledError: unasked"),
    by_error("hostile text", r"NUL \x00, a surrogate \ud800, xxx", tail="bytes cut]\nxxx"),
    by_error("long chain", "ValueError: number 150"),
    by_error("recursion", "RecursionError: maximum recursion depth exceeded"),
    by_error("MemoryError", "MemoryError"),
    Ending("ends_by", "ZeroDivisionError", replace(ERROR, counts=(1, 3), error="to no avail"), options=THREE),
    Ending("raises_what_cannot_be_shown", "", replace(ERROR, error="Nameless", tail=...)),
    Ending("snoozes_without_a_time", "", replace(ERROR, error="Unfinished: no time given", tail=None)),
    by_exit("os._exit(0)", 0, "without a result", "ends by os._exit(0)\n"),
    by_exit("os._exit(70)", 70, "without a result (70 is also", "ends by"),
    by_exit("a lie", 3, "without a result", "ends by a lie\n"),
    by_exit("exec", 3, "without a result", "ends by exec\nfrom the program\n"),
    by_signal("SIGTERM", "SIGTERM", ": not sent by sqljobs"),
    by_signal("SIGHUP to its group", "SIGHUP", ""),
    replace(by_signal("SIGSEGV", "SIGSEGV", ": invalid memory access", tail="in ends_by"), is_hard=True),
    by_signal("SIGABRT", "SIGABRT", ": abort() was called", tail=...),
    by_signal("SIGXCPU", "SIGXCPU", ""),
    replace(by_signal("SIGKILL", "SIGKILL", "", causes=("signal",) * 3, counts=(3, 3)), options=THREE),
    Ending(
        "ends_by",
        "Snooze",
        replace(WELL, causes=("snoozed", "done"), counts=(2, 2), result="well, attempt 2", error="snoozed for 0.05 s"),
        is_hard=True,
    ),
    Ending(
        "ends_by",
        "Retry",
        replace(ERROR, state="done", causes=("error", "done"), counts=(2, 3), result="well, attempt 2", tail=...),
        options=THREE,
        is_hard=True,
    ),
    Ending("ends_by", "Fail", End("failed", ("fail",), (1, 3), error="no use"), options=THREE),
    Ending("ends_by", "Cancel", End("cancelled", ("cancelled",), (1, 3), error="not wanted"), options=THREE),
    refused("object", "object"),
    refused("NaN", "nan"),
    refused("surrogate", "surrogate"),
    refused("NUL", "NUL"),
    refused("huge", "at most 4194304 are kept"),
)

BEFORE_THE_HANDLER = (
    *(
        Ending("takes", how, End("failed", ("bad_args",), (1, 3), error="no such thing", tail=None), options=THREE)
        for how in ("raise", "exit")
    ),
    Ending(
        "takes",
        "kill once",
        End(
            "done",
            ("interrupted", "done"),
            (2, 2),
            "well, attempt 2, kill once",
            exit_code=None,
            signal="SIGKILL",
            error="before its handler was reached",
            tail=None,
        ),
    ),
    Ending(
        "takes",
        "kill",
        End(
            "failed",
            ("interrupted",) * 5 + ("error",),
            (6, 6),
            exit_code=None,
            signal="SIGKILL",
            error="before its handler was reached",
            tail=None,
        ),
        is_hard=True,
    ),
    Ending(
        "takes",
        "lock",
        End(
            "done",
            ("interrupted", "done"),
            (2, 2),
            "well, attempt 2, lock",
            exit_code=None,
            signal="SIGTERM",
            error="its handler did not start in time (killed by SIGTERM)",
            dump="in __post_init__",
            tail=None,
        ),
        options=EARLY,
    ),
)

OVER_ITS_TIME = (
    late("plain", STOPPED),
    late("looks", replace(WELL, result="timeout", dump=...)),
    late("catches", replace(WELL, result="caught timeout", dump="in stay")),
    late("turns_into_an_error", replace(ERROR, error="as it says", dump="in stay")),
    late("swallows", replace(KILLED, dump="in swallows"), is_hard=True),
    late("blocks_sigterm", KILLED),
    late("blocks_every_signal", replace(KILLED, dump=None), is_hard=True),
    late("sleeps_in_c", replace(KILLED, dump="in _lock_twice")),
    late("holds_the_lock", replace(KILLED, dump="in _lock_twice"), is_hard=True),
    late("closes_every_descriptor", replace(STOPPED, dump=None)),
    late("has_threads", replace(STOPPED, dump="in has_threads")),
    late("keeps_its_own_handler", replace(WELL, result="its own", dump="in keeps_its_own_handler")),
    late("asynchronous", replace(STOPPED, dump="in select")),
    late("tidies_up", replace(WELL, result="tidy", dump="in select")),
    late("asynchronous_and_deaf", replace(KILLED, dump="in select")),
    Ending("terminates_a_worker", "", replace(WELL, result=-15)),
    late("is_paused", replace(KILLED, dump=None)),
    Ending("stays", "program", replace(KILLED, signal="SIGTERM", dump=None), options=SLOW),
    Ending(
        "stays",
        "",
        replace(STOPPED, state="done", causes=("timeout", "done"), counts=(2, 3), result="well, attempt 2"),
        options=SEVERAL,
    ),
)

OVER_ITS_MEMORY = (
    large(
        "hogs", replace(STOPPED, causes=("memory",), error="more than the memory limit of 200.0 MiB", dump="in hogs")
    ),
    large("hogs_and_ends", replace(WELL, result="memory", dump=...)),
    large("hogs_together", replace(STOPPED, causes=("memory",), error="than the memory limit of 300.0 MiB")),
    large("shares", WELL),
    large(
        "recurses_for_ever",
        End("failed", ("memory",), error="250.0 MiB", exit_code=..., signal=..., dump="in deeper"),
        is_hard=True,
    ),
)

LEAVING_A_MESS = (
    *(disturbed(how) for how in ("threads", "handlers of signals", "copies", "environment", "blocked signals")),
    *(disturbed(how, is_hard=True) for how in ("pools", "daemons", "descriptors", "folder")),
    disturbed("SQLite's writer"),
    disturbed("SQLite's writer in a thread"),
    Ending("leaves_a_session_open", "", WELL),
    Ending("breaks_stdout", "", WELL),
    Ending("rings_for_ever", "", WELL),
    Ending("much", "", replace(WELL, result=None, tail="the end\n")),
    Ending("closes", "all", replace(WELL, tail="before\n")),
)

ACTED_ON = (
    Ending("stays", "", CANCELLED, Act.CANCEL, is_hard=True),
    Ending("stays", "obeys", replace(CANCELLED, error=None, dump=...), Act.CANCEL),
    Ending(
        "stays",
        "deaf",
        replace(CANCELLED, exit_code=None, signal="SIGKILL", error="(killed by SIGKILL)", dump="in swallows"),
        Act.CANCEL,
    ),
    Ending(
        "stays",
        "",
        replace(CANCELLED, exit_code=None, signal="SIGKILL", error="(killed by SIGKILL)", dump=None),
        Act.CANCEL_NOW,
    ),
    Ending(
        "stays",
        "",
        End("failed", ("signal",), exit_code=None, signal="SIGKILL", error="killed by SIGKILL: not sent by sqljobs"),
        Act.KILL,
    ),
    Ending(
        "stays",
        "",
        End("done", ("lost", "done"), (2, 3), "well, attempt 2", exit_code=None, signal="SIGKILL", error="lost: "),
        Act.TAKE,
        THREE,
        is_hard=True,
    ),
)

# One after the other, when all of the above have ended.
WITHOUT_DESCRIPTORS = (
    Ending(
        "breaks_stdout",
        "",
        End("done", ("interrupted", "done"), (2, 2), "well", exit_code=None, error="cannot start a child", tail=None),
        Act.STARVE,
        is_hard=True,
    ),
)
AT_A_SHUTDOWN = (
    Ending(
        "stays",
        "",
        End("ready", ("interrupted",), (1, 2), error="stopped: the supervisor shut down", dump="in stay"),
        Act.SHUTDOWN,
        is_hard=True,
    ),
    Ending("stays", "obeys", replace(WELL, result="shutdown", dump=...), Act.SHUTDOWN),
    Ending(
        "stays",
        "deaf",
        End(
            "ready",
            ("interrupted",),
            (1, 2),
            exit_code=None,
            signal="SIGKILL",
            error="stopped: the supervisor shut down (killed by SIGKILL)",
            dump="in swallows",
        ),
        Act.SHUTDOWN,
    ),
)

ENDINGS = (
    *THE_HANDLERS_OWN,
    *BEFORE_THE_HANDLER,
    *OVER_ITS_TIME,
    *OVER_ITS_MEMORY,
    *LEAVING_A_MESS,
    *ACTED_ON,
    *WITHOUT_DESCRIPTORS,
    *AT_A_SHUTDOWN,
)


def arguments(ending: Ending, side: str, url: str) -> dict[str, object] | None:
    """What the handler of this row is called with; `side`: a file of its own."""
    how = ending.how
    by_type: dict[str, dict[str, object]] = {
        "ends_by": {"how": how},
        "gives": {"what": how},
        "takes": {"thing": {"what": how}},
        "disturbs": {"how": how, "side": side, "url": url},
        "stays": {"side": side, "how": how},
        "closes": {"how": how},
        "leaves_a_session_open": {"url": url},
        "shares": {"workers": 5},
        "much": {"megabytes": full_size(5, 1024)},
    }
    return by_type.get(ending.type)
