"""From a process's end to the attempt's cause: the table of the contract, and one readable line each time."""

import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqljobs.schema.outcomes import Cause
from sqljobs.supervisor.crashes import cause_of_death, signal_name
from sqljobs.supervisor.kill_ladder import Reason
from sqljobs.supervisor.oom_kills import Oom

ends = st.one_of(
    st.tuples(st.integers(0, 255), st.none()), st.tuples(st.none(), st.integers(1, 64)), st.just((None, None))
)


@pytest.mark.parametrize(
    ("exit_code", "killed_by", "reports", "asked", "cause", "says"),
    [
        (0, None, b"S", None, Cause.EXIT, "ended with exit code 0 without a result"),
        (3, None, b"S", None, Cause.EXIT, "ended with exit code 3 without a result"),
        (70, None, b"S", None, Cause.EXIT, "what it printed ends with the traceback"),
        (None, None, b"S", None, Cause.EXIT, "its exit status was taken"),
        (None, 9, b"S", None, Cause.SIGNAL, "killed by SIGKILL: not sent by sqljobs: perhaps the kernel's OOM killer"),
        (None, 11, b"S", None, Cause.SIGNAL, "killed by SIGSEGV: invalid memory access"),
        (None, 12, b"S", None, Cause.SIGNAL, "killed by SIGUSR2"),
        (0, None, b"", None, Cause.INTERRUPTED, "ended with exit code 0 before its handler was reached"),
        (None, 9, b"", None, Cause.INTERRUPTED, "OOM killer"),
        (None, 9, b"S", Reason.TIMEOUT, Cause.TIMEOUT, "it ran longer than its timeout (killed by SIGKILL)"),
        (1, None, b"", Reason.TIMEOUT, Cause.TIMEOUT, "(ended with exit code 1)"),
        (None, 15, b"S", Reason.SHUTDOWN, Cause.INTERRUPTED, "the supervisor shut down"),
        (None, 15, b"S", Reason.CANCEL, Cause.CANCELLED, "the job was cancelled"),
        (None, 9, b"S", Reason.LEASE_LOST, Cause.LEASE_LOST, "the lease was lost"),
        (None, 9, b"S", Reason.ENDED, Cause.EXIT, "its process stayed after the end"),
        (None, 9, b"", Reason.NOT_REACHED, Cause.INTERRUPTED, "its handler did not start in time"),
    ],
)
def test_table(
    exit_code: int | None, killed_by: int | None, reports: bytes, asked: Reason | None, cause: Cause, says: str
) -> None:
    outcome = cause_of_death(exit_code=exit_code, signal=killed_by, reports=reports, asked=asked)
    assert outcome.cause is cause
    assert outcome.error is not None
    assert says in outcome.error


@pytest.mark.parametrize(
    ("killed_by", "reports", "asked", "oom", "cause", "says"),
    [
        (9, b"S", None, Oom.SURE, Cause.MEMORY, "killed by SIGKILL: the kernel's OOM killer"),
        (9, b"S", None, Oom.PERHAPS, Cause.SIGNAL, "probably the kernel's OOM killer"),
        (11, b"S", None, Oom.SURE, Cause.SIGNAL, "killed by SIGSEGV: invalid"),
        (9, b"", None, Oom.SURE, Cause.INTERRUPTED, "OOM killer: there was no memory left before its handler"),
        (9, b"S", Reason.TIMEOUT, Oom.SURE, Cause.TIMEOUT, "it ran longer than its timeout (killed by SIGKILL)"),
    ],
)
def test_what_the_kernel_says_of_a_kill(
    killed_by: int, reports: bytes, asked: Reason | None, oom: Oom, cause: Cause, says: str
) -> None:
    outcome = cause_of_death(exit_code=None, signal=killed_by, reports=reports, asked=asked, oom=oom)
    assert outcome.cause is cause
    assert says in (outcome.error or "")


def test_what_is_known_of_a_limit_is_told() -> None:
    outcome = cause_of_death(exit_code=None, signal=9, reports=b"S", asked=Reason.MEMORY, asked_text="held 3, limit 2")
    assert (outcome.cause, outcome.error) == (Cause.MEMORY, "held 3, limit 2 (killed by SIGKILL)")


@settings(deadline=None)
@given(
    end=ends,
    reports=st.sampled_from([b"", b"S"]),
    asked=st.none() | st.sampled_from(Reason),
    oom=st.sampled_from(Oom),
)
def test_every_end_has_a_cause_and_one_line(
    end: tuple[int | None, int | None], reports: bytes, asked: Reason | None, oom: Oom
) -> None:
    outcome = cause_of_death(exit_code=end[0], signal=end[1], reports=reports, asked=asked, oom=oom)
    assert outcome.cause is not Cause.DONE
    assert outcome.error is not None
    assert outcome.error == outcome.error.strip() != ""
    assert outcome.error.isprintable()
    assert outcome.deploy == (asked is Reason.SHUTDOWN)
    # We sent it ourselves, so nobody is suspected.
    assert asked is None or "OOM" not in outcome.error


@settings(deadline=None)
@given(number=st.integers(1, 64))
def test_every_signal_has_a_name_of_its_own(number: int) -> None:
    name = signal_name(number)
    assert name.startswith("SIG") or number in (32, 33)
    assert [other for other in range(1, 65) if signal_name(other) == name] == [number]


def test_names_of_signals() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(signal.SIGRTMIN + 3) == "SIGRTMIN+3"
