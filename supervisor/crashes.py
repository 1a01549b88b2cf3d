"""From how a child's process ended to what is recorded of its attempt. Pure; it neither waits nor writes.

For children that did not finalize: where one did, the database already says how the attempt ended."""

from __future__ import annotations

import signal as signals

from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.supervisor.kill_ladder import Reason
from sqljobs.supervisor.oom_kills import Oom
from sqljobs.worker_runtime.stop_request import ENDS

HANDLER_REACHED = b"S"
OWN_FAULT = 70

_ASKED: dict[Reason, tuple[Cause, str]] = {
    **{Reason(name): end for name, end in ENDS.items()},
    Reason.ENDED: (Cause.EXIT, "stopped: its process stayed after the end"),
    Reason.NOT_REACHED: (Cause.INTERRUPTED, "stopped: its handler did not start in time"),
}

_MEANING = {
    signals.SIGKILL: "not sent by sqljobs: perhaps the kernel's OOM killer (see the kernel's log), or a person",
    signals.SIGSEGV: "invalid memory access, usually in a C extension",
    signals.SIGBUS: "invalid memory access, or a mapped file was cut short",
    signals.SIGABRT: "abort() was called, usually by a C library",
    signals.SIGILL: "the CPU does not know an instruction of a C extension",
    signals.SIGTERM: "not sent by sqljobs",
}
_OOM = {
    Oom.SURE: "the kernel's OOM killer: there was no memory left",
    Oom.PERHAPS: "not sent by sqljobs: probably the kernel's OOM killer, which has just killed on this machine",
}


def signal_name(number: int) -> str:
    """`SIGKILL` for 9, also for the real-time signals, which have no names of their own."""
    try:
        return signals.Signals(number).name
    except ValueError:
        offset = number - signals.SIGRTMIN
        return f"SIGRTMIN+{offset}" if offset > 0 else f"signal {number}"


def cause_of_death(
    *,
    exit_code: int | None,
    signal: int | None,
    reports: bytes,
    asked: Reason | None,
    asked_text: str | None = None,
    oom: Oom = Oom.NO,
) -> Outcome:
    """What to record of an attempt whose process is dead and which is not finalized.

    `asked`: why we had begun to stop it; `asked_text`: the same in a line, where more is known than that. `reports`:
    what the child wrote into its pipe. Both numbers None: the exit status was lost. `oom`: what the kernel's counters
    say of a SIGKILL that was not ours. The error is one line."""
    end = _describe(exit_code, signal, asked, oom)
    if asked is not None:
        cause, why = _ASKED[asked]
        why = asked_text or why
        return Outcome(cause, error=f"{why} ({end})", deploy=asked is Reason.SHUTDOWN, died=True)
    if HANDLER_REACHED not in reports:
        return Outcome(Cause.INTERRUPTED, error=f"{end} before its handler was reached", died=True)
    if signal is not None:
        if signal == signals.SIGKILL and oom is Oom.SURE:
            return Outcome(Cause.MEMORY, error=end, died=True)
        return Outcome(Cause.SIGNAL, error=end, died=True)
    return Outcome(Cause.EXIT, error=f"{end} without a result{_hint(exit_code)}", died=True)


def text_of(reason: Reason) -> str:
    """Why a child is stopped, in a line."""
    return _ASKED[reason][1]


def end_of(exit_code: int | None, signal: int | None) -> str:
    """How a process ended that we have not stopped: `killed by SIGSEGV: ...`, `ended with exit code 3`."""
    return _describe(exit_code, signal, None, Oom.NO)


def _describe(exit_code: int | None, signal: int | None, asked: Reason | None, oom: Oom) -> str:
    if signal is not None:
        meaning = _MEANING.get(signal) if asked is None else None  # type: ignore[call-overload]
        if meaning is not None and signal == signals.SIGKILL:
            meaning = _OOM.get(oom, meaning)
        return f"killed by {signal_name(signal)}" + (f": {meaning}" if meaning else "")
    if exit_code is not None:
        return f"ended with exit code {exit_code}"
    return "ended, its exit status was taken by other code in the supervisor"


def _hint(exit_code: int | None) -> str:
    if exit_code == OWN_FAULT:
        return f" ({OWN_FAULT} is also sqljobs' own fault code: what it printed ends with the traceback)"
    return ""
