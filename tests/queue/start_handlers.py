"""Job types whose import is seen, leaves a thread, and fails on demand; they tell of the process that they are in."""

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import sqljobs
from sqljobs.worker_runtime.process_mark import VARIABLE

HERE = Path.cwd()  # the supervisor's folder

with (HERE / "imports").open("a") as seen:
    seen.write(f"{os.getpid()}\n")
if (HERE / "broken").exists():
    raise RuntimeError("the model file is gone")
threading.Thread(target=threading.Event().wait, name="exporter", daemon=True).start()


class Hopeless(Exception):
    pass


@sqljobs.handler(
    max_attempts=3, fail_on=(Hopeless, "bad_result"), uses={"gpu": 1}, memory="4GiB", on_failed="seen_fail"
)
def tells(hopeless: bool = False) -> dict[str, object]:
    print("printed by Python", flush=True)
    os.write(2, b"written by C\n")
    if hopeless:
        raise Hopeless
    deaths = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(2, ctypes.byref(deaths), 0, 0, 0)
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "parent": os.getppid(),
        "death_signal": deaths.value,
        "mark": os.environ[VARIABLE].split(" "),
        "maps": "memfd:sqljobs:" in Path("/proc/self/maps").read_text(),
        "unit": [os.environ["UNIT"], *sqljobs.current_job().devices["gpu"]],
        "inheritable": [fd for fd in range(3, 1000) if _is_inheritable(fd)],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "cmdline": Path("/proc/self/cmdline").read_text().split("\0"),
        "environ": Path("/proc/self/environ").read_text().split("\0"),
        "threads": sorted(thread.name for thread in threading.enumerate()),
    }


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


@sqljobs.handler
def seen_fail(job_id: int, type: str, group: str, cause: str, error: str) -> str:
    del job_id, type, group, error
    return cause


@sqljobs.handler
def stays(side: str) -> None:
    """Leaves a daemon, is asked to stop, and stays until it is killed."""
    if os.fork() == 0:
        os.setsid()
        Path(side).write_text(str(os.getpid()))
        time.sleep(600)
        os._exit(0)
    try:
        while sqljobs.current_job().stopping is None:
            time.sleep(0.01)
        print(f"asked: {sqljobs.current_job().stopping}", flush=True)
        time.sleep(600)
    except sqljobs.Stopping:
        print("told by SIGTERM", flush=True)
        time.sleep(600)
