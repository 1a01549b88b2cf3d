"""Job types that print, by all ways that there are, and some that do not want to be heard."""

import ctypes
import os
import resource
import subprocess
import sys
import threading
import time
from io import TextIOWrapper

import sqljobs

LIBC = ctypes.CDLL(None)


def until_there(path: str) -> None:
    deadline = time.monotonic() + 120
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.02)


@sqljobs.handler(max_attempts=1)
def all_ways() -> None:
    print("from print")
    print("to stderr", file=sys.stderr)
    LIBC.printf(b"from C\n")
    os.write(1, b"from write\r\nprogress 1\rprogress 2\n")
    subprocess.run(["sh", "-c", "echo from a program; echo and its stderr >&2"], check=True)
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()
    LIBC.printf(b"C holds this back, ")
    sys.stdout.write("and Python this")


@sqljobs.handler(max_attempts=1)
def garbage() -> None:
    os.write(2, b"NUL \0, no UTF-8 \xff\xfe, a surrogate \xed\xa0\x80, \x1b[31mred, cut \xe4\xbd")


@sqljobs.handler(max_attempts=1)
def much(megabytes: int) -> None:
    block = b"".join(b"%015d\n" % number for number in range(65536))
    for _ in range(megabytes):
        os.write(1, block)
    print("the end")


@sqljobs.handler(max_attempts=1)
def one_long_line(megabytes: int) -> None:
    for _ in range(megabytes):
        os.write(1, b"x" * (1 << 20))


@sqljobs.handler(max_attempts=1)
def closes(how: str) -> str:
    print("before")
    if how == "all":
        os.closerange(0, 1024)
    else:
        os.close(1)
        os.close(2)
    threading.Thread(target=_go_on_writing, daemon=True).start()
    return "well"


def _go_on_writing() -> None:
    for number in (1, 2) * 1_000:  # less than what is kept
        try:
            os.write(number, b"not for the database\n")
        except OSError:
            continue
        finally:
            time.sleep(0.0005)


@sqljobs.handler(max_attempts=1)
def replaces(file: str) -> str:
    print("before")
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), 1)
    print("to the file")
    sys.stderr = None
    sys.stdout = TextIOWrapper(open(os.devnull, "wb"))  # noqa: SIM115
    return "well"


@sqljobs.handler(max_attempts=1)
def cuts_short() -> None:
    print("lost")
    subprocess.run(["sh", "-c", "echo cut > /dev/stderr"], check=True)
    print("after")


@sqljobs.handler(max_attempts=1)
def leaves_a_program_that_prints() -> None:
    subprocess.Popen(["sh", "-c", "while :; do echo still here; done"], start_new_session=True)
    time.sleep(0.2)
    print("I leave")


@sqljobs.handler(max_attempts=1)
def is_killed() -> None:
    print("last words")
    LIBC.printf(b"of C, too\n")
    os.kill(os.getpid(), 9)


@sqljobs.handler(max_attempts=1)
def fails() -> None:
    sys.stdout.write("half a line, ")
    raise ValueError("told by the traceback")


@sqljobs.handler(max_attempts=1)
def speaks(gate: str, word: str = "line") -> None:
    """Prints `<word> 1`, and `<word> 2` when the gate opens."""
    print(f"{word} 1")
    until_there(gate)
    print(f"{word} 2")


@sqljobs.handler(max_attempts=1)
def silent(gate: str) -> None:
    until_there(gate)


@sqljobs.handler(max_attempts=1)
def fills_the_disk() -> str:
    """More than the file may take, as on a full disk; `print` goes on, a write of one's own is told."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, limit[1]))
    try:
        for number in range(20_000):
            print("line", number)
        os.write(1, b"own")
    except OSError as error:
        return f"told: {error.strerror}"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)  # the end of the attempt is written to a file, too
    return "not told"


@sqljobs.handler(max_attempts=1)
def prints_on_a_full_disk(gate: str, done: str) -> str:
    print("there is room")
    until_there(gate)
    for number in range(2000):
        print("no room", number)
    failed = subprocess.run(["sh", "-c", "echo program"], check=False).returncode
    open(done, "w").close()
    return f"program ended {failed}"
