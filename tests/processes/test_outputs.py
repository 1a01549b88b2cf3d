"""The files that jobs print into, as their supervisor keeps them."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from sqljobs.supervisor import output
from sqljobs.supervisor.children import ForkFailed
from sqljobs.supervisor.output import BUSY_LOOK_SECONDS, KEPT_BYTES, LOOK_SECONDS, MOST_BYTES, Outputs
from tests.processes.offspring import open_fds

MIB = 1 << 20


def kept(descriptor: int) -> int:
    return os.fstat(descriptor).st_blocks * 512


@pytest.fixture(params=["on disk", "in memory", "no holes"])
def outputs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outputs:
    """On each kind of file."""
    folder = tmp_path if request.param == "on disk" else Path("/proc")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(folder))
    if request.param == "no holes":
        monkeypatch.setattr(output, "_FALLOCATE", lambda *_: -1)
    return Outputs()


def test_much_is_kept_short_and_its_end_stays(outputs: Outputs, request: pytest.FixtureRequest) -> None:
    before = open_fds()
    assert outputs.look() is None
    descriptor, other = outputs.open(1), outputs.open(2)
    assert outputs.look() == LOOK_SECONDS
    os.write(other, b"little\n")
    block = b"%07d\n" * 1024 % tuple(range(1024))
    for _ in range(20):
        for _ in range(MIB // len(block)):
            os.write(descriptor, block)
        if os.fstat(descriptor).st_size > MOST_BYTES:
            outputs.look()
        assert kept(descriptor) <= MOST_BYTES + MIB
    os.write(descriptor, block)
    tail = outputs.take(1)
    assert tail is not None
    assert tail.endswith("0001022\n0001023\n")
    if "no holes" not in request.node.name:
        assert len(tail) > 60_000
    assert outputs.take(2) == "little\n"
    assert open_fds() == before


def test_looks_are_close_while_there_is_something_to_do(outputs: Outputs) -> None:
    descriptor = outputs.open(1)
    os.write(descriptor, b"\1" * (MOST_BYTES + 2 * MIB))
    assert outputs.look() == BUSY_LOOK_SECONDS
    assert kept(descriptor) <= KEPT_BYTES + MIB
    assert outputs.look() == LOOK_SECONDS
    outputs.close(1)
    outputs.close(1)
    assert outputs.look() is None


def test_a_file_that_was_cut_short_is_kept_short_all_the_same(outputs: Outputs) -> None:
    descriptor = outputs.open(1)
    for _ in range(3):
        os.write(descriptor, b"\1" * (MOST_BYTES + 2 * MIB))
        outputs.look()
        os.ftruncate(descriptor, 0)
    os.write(descriptor, b"\1" * (MOST_BYTES + 2 * MIB) + b"\nend")
    outputs.look()
    assert kept(descriptor) <= KEPT_BYTES + MIB
    assert (outputs.take(1) or "end").endswith("end")


def test_nothing_printed_is_none(outputs: Outputs) -> None:
    outputs.open(1)
    assert outputs.take(1) is None


def test_it_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    outputs = Outputs()
    descriptor = outputs.open(1)
    assert os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    outputs.close(1)


def test_little_room_means_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(output, "ROOM_BYTES", 1 << 62)
    before = open_fds()
    outputs = Outputs()
    assert "memfd" in os.readlink(f"/proc/self/fd/{outputs.open(1)}")
    outputs.close(1)
    assert open_fds() == before


def test_without_a_descriptor_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "memfd_create", refuse)
    with pytest.raises(ForkFailed, match="cannot open a file for what the job prints: Too many open files"):
        Outputs().open(1)
