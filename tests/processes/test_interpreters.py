"""Programs in the table of children, and fresh interpreters that say which handlers there are."""

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from sqljobs.schema.errors import BadHandlers
from sqljobs.schema.outcomes import Cause
from sqljobs.supervisor.child_process import Program
from sqljobs.supervisor.children import Children, ForkFailed
from sqljobs.supervisor.handler_modules import load_handlers
from sqljobs.supervisor.liveness import other_threads
from sqljobs.supervisor.start_methods import Source
from tests.processes.offspring import open_fds, run_script, wait_for_ends

TELL = """
import json, os, signal
names = {number: f"/proc/self/fd/{number}" for number in range(4, 100)}
fds = {number: os.readlink(name) for number, name in names.items() if os.path.exists(name)}
fds = {number: name for number, name in fds.items() if "memfd" in name}  # others were inheritable before us
told = {"fds": fds, "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "environ": dict(os.environ)}
os.write(3, json.dumps(told | {"session": os.getsid(0), "group": os.getpgid(0), "pid": os.getpid()}).encode())
"""
TYPES = """
import threading, sqljobs
class Hopeless(Exception): ...
@sqljobs.handler("a.b", group="g", weight=2, priority=-3, max_attempts=7, timeout="1h", memory="1GiB",
                 uses={"gpu": "0.5"}, on_failed="c", backoff=sqljobs.exponential(1, 9), fail_on=(Hopeless, "memory"))
def a() -> None: ...
@sqljobs.handler
def c(job_id: int) -> None: ...
print("said while it is imported")
threading.Thread(target=threading.Event().wait).start()
"""


@pytest.mark.parametrize("leads_session", [True, False])
def test_a_program_inherits_what_it_is_given_by_number(children: Children[str], leads_session: bool) -> None:
    """In the place of descriptors that this process has there, and however many threads it has."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    before = open_fds()
    files = [os.memfd_create(name) for name in ("six", "five", "four")]
    descriptors: dict[int, int] = dict(zip((6, 5, 4), files, strict=True))
    program = Program([sys.executable, "-S", "-c", TELL], {"ONLY": "this"}, descriptors, leads_session=leads_session)
    child = children.execute("a", program)
    over.set()
    thread.join()
    told = json.loads(wait_for_ends(children)["a"].reports)
    assert told["fds"] == {
        "4": "/memfd:four (deleted)",
        "5": "/memfd:five (deleted)",
        "6": "/memfd:six (deleted)",
    }
    assert told["environ"].items() >= {"ONLY": "this"}.items()
    assert "HOME" not in told["environ"]
    assert told["blocked"] > 50
    assert told["group"] == told["pid"] == child.pid
    assert (told["session"] == child.pid) is leads_session
    for descriptor in files:
        os.close(descriptor)
    assert open_fds() == before


def test_a_program_that_is_not_there_leaves_nothing(children: Children[str]) -> None:
    before = open_fds()
    with pytest.raises(ForkFailed, match="cannot start a child process: No such file or directory"):
        children.execute("a", Program(["/no/such/program"], {}))
    assert (len(children), open_fds()) == (0, before)


def test_a_process_tells_which_handlers_there_are(tmp_path: Path) -> None:
    (tmp_path / "types.py").write_text(TYPES)
    (tmp_path / "plain.py").write_text(TYPES.partition("threading.Thread")[0])
    before = open_fds()
    found = Source([str(tmp_path / "types.py")], str(tmp_path)).described(())
    assert (open_fds(), other_threads()) == (before, [])
    loaded = load_handlers(str(tmp_path / "plain.py"))
    assert list(found) == list(loaded) == ["a.b", "c"]
    for name, job_type in loaded.items():
        assert (found[name].defaults, found[name].backoff) == (job_type.defaults, job_type.backoff)
    assert found["a.b"].fail_on == ("memory",)  # classes are known in the child alone
    assert found["a.b"].is_fatal(Cause.MEMORY)


def told_by(source: str, tmp_path: Path) -> str:
    (tmp_path / "h.py").write_text(source)
    with pytest.raises(BadHandlers) as caught:
        Source([str(tmp_path / "h.py")], str(tmp_path)).described(())
    return str(caught.value)


def test_what_is_wrong_with_them_is_told_in_a_line(tmp_path: Path) -> None:
    assert told_by("import os; os.abort()", tmp_path) == (
        "importing the handlers ended the process that was to do so, before it said anything: killed by SIGABRT:"
        " abort() was called, usually by a C library"
    )
    small = "import sqljobs\n@sqljobs.handler(memory='1MiB')\ndef a() -> None: ..."
    assert told_by(small, tmp_path).startswith("the memory limit of 'a', 1.0 MiB, is below the ")


def test_an_exception_while_it_is_asked_ends_it(tmp_path: Path) -> None:
    """As Ctrl-C does, or what a handler of SIGTERM raises."""
    pid_file = tmp_path / "pid"
    tell = f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))"
    (tmp_path / "h.py").write_text(f"import os, pathlib, time\n{tell}\ntime.sleep(600)")
    result = run_script(
        """
import os, pathlib, signal, sys
from sqljobs.supervisor.liveness import other_threads
from sqljobs.supervisor.start_methods import Source
pid_file = pathlib.Path(sys.argv[2])
def look(_number, _frame):
    if pid_file.exists() and pid_file.read_text():
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
try:
    Source([sys.argv[1]], ".").described(())
except KeyboardInterrupt:
    print(os.path.exists(f"/proc/{pid_file.read_text()}"))
""",
        str(tmp_path / "h.py"),
        str(pid_file),
    )
    assert (result.stdout, result.stderr) == ("False\n", "")
