"""The event loop: descriptors, ends of children, signals, and that it gives back what it took."""

import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from sqljobs.supervisor.children import Children
from sqljobs.supervisor.loop import Loop
from tests.processes.offspring import open_fds, raw

NEVER_REACHED = 120.0


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_readable_descriptor_calls_back_until_unwatched(loop: Loop, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    seen: list[bytes] = []
    loop.watch(reader, lambda: seen.append(os.read(reader, 10)))
    loop.run_once(0)
    assert seen == []
    os.write(writer, b"a")
    loop.run_once(NEVER_REACHED)
    assert seen == [b"a"]
    with pytest.raises(KeyError):
        loop.watch(reader, lambda: None)
    loop.unwatch(reader)
    with pytest.raises(KeyError):
        loop.unwatch(reader)
    os.write(writer, b"b")
    loop.run_once(0)
    assert seen == [b"a"]


def test_the_end_of_a_child_wakes_the_loop(loop: Loop, children: Children[str]) -> None:
    child = children.spawn("a", raw(lambda _: os._exit(3)))
    codes: list[int | None] = []

    def reap() -> None:
        loop.unwatch(child.pidfd)
        codes.extend(ended.exit_code for ended in children.reap())

    loop.watch(child.pidfd, reap)
    loop.run_once(NEVER_REACHED)
    assert codes == [3]
    loop.run_once(0)


def test_a_callback_may_unwatch_another_that_is_ready_and_reuse_its_number(loop: Loop) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def first_come(own: int, other: int) -> None:
        called.append(own)
        loop.unwatch(other)
        loop.watch(other, lambda: called.append(-1))

    ends = [pair[0].fileno() for pair in pairs]
    loop.watch(ends[0], lambda: first_come(ends[0], ends[1]))
    loop.watch(ends[1], lambda: first_come(ends[1], ends[0]))
    for pair in pairs:
        pair[1].send(b"x")
    loop.run_once(NEVER_REACHED)
    assert len(called) == 1
    assert called[0] in ends
    for pair in pairs:
        pair[0].close()
        pair[1].close()


def test_signals_wake_the_loop_and_arrive_in_order_each_time(loop: Loop) -> None:
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        loop.catch(number)
    assert loop.take_signals() == []
    for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2):
        os.kill(os.getpid(), number)
    loop.run_once(NEVER_REACHED)
    loop.run_once(NEVER_REACHED)  # untaken signals are not slept over
    assert loop.take_signals() == [signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2]
    assert loop.take_signals() == []
    os.kill(os.getpid(), signal.SIGUSR1)
    assert loop.take_signals() == [signal.SIGUSR1]  # without run_once, too


def test_signals_of_other_code_are_left_to_it(loop: Loop) -> None:
    theirs: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: theirs.append(number))
    loop.catch(signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR2)
    os.kill(os.getpid(), signal.SIGUSR1)
    loop.run_once(NEVER_REACHED)
    assert (loop.take_signals(), theirs) == ([signal.SIGUSR1], [signal.SIGUSR2])
    signal.signal(signal.SIGUSR2, before)


def test_another_thread_can_wake_the_loop(loop: Loop) -> None:
    loop.wake()  # nothing is caught, so nobody waits for signals yet
    loop.catch(signal.SIGUSR1)
    thread = threading.Thread(target=loop.wake)
    thread.start()
    loop.run_once(None)
    thread.join()
    assert loop.take_signals() == []


def test_closing_gives_everything_back(pipe: tuple[int, int]) -> None:
    def handler(*_: object) -> None:
        raise AssertionError("nobody sends this")

    os.set_blocking(pipe[1], False)
    outer_fd, outer = signal.set_wakeup_fd(pipe[1]), signal.signal(signal.SIGUSR1, handler)
    with Loop() as loop:
        loop.catch(signal.SIGUSR1)
        loop.catch(signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) is not handler
    loop.close()
    assert signal.getsignal(signal.SIGUSR1) is handler
    assert signal.set_wakeup_fd(outer_fd) == pipe[1]
    signal.signal(signal.SIGUSR1, outer)
    assert loop.take_signals() == []


def test_no_descriptor_is_left() -> None:
    before = open_fds()
    for _ in range(3):
        with Loop() as loop:
            loop.catch(signal.SIGUSR1)
    assert open_fds() == before
