"""What a fresh interpreter of ours does: tell which handlers there are, run one job, or be the supervisor.

The other end of interpreters.py. What it has to say goes as JSON into its pipe: an error of ours by kind and line."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from sqljobs.schema.claim import Lease
from sqljobs.schema.configure import configure
from sqljobs.schema.errors import Error
from sqljobs.schema.transactions import Database
from sqljobs.supervisor.child_process import REPORT_FD
from sqljobs.supervisor.crashes import OWN_FAULT
from sqljobs.supervisor.handler_modules import load_handlers
from sqljobs.supervisor.interpreters import DUMP_FD, OUTPUT_FD, STOP_FD
from sqljobs.supervisor.liveness import other_threads, resident_bytes
from sqljobs.supervisor.own_engine import own_engine
from sqljobs.worker_runtime.child import ChildStart, run_child
from sqljobs.worker_runtime.descriptions import described, description_of
from sqljobs.worker_runtime.post_fork import die_with, settle_in
from sqljobs.worker_runtime.stack_dump import StackDump
from sqljobs.worker_runtime.stop_request import StopRequest

Told = Mapping[str, Any]


def obey(order: Told) -> NoReturn:
    """Do what `order` says, and leave."""
    for number in range(REPORT_FD, OUTPUT_FD + 1):
        with suppress(OSError):  # not every order comes with all of them
            os.set_inheritable(number, False)
    configure(schema=order["schema"])
    task: Callable[[Told, int], NoReturn] = {"handlers": _tell, "job": _run_job, "supervisor": _supervise}[
        order["task"]
    ]
    task(order["told"], order["parent_pid"])


def _tell(told: Told, parent_pid: int) -> NoReturn:
    settle_in(parent_pid=parent_pid, keep_fds=[REPORT_FD])

    def types() -> dict[str, Any]:
        found = load_handlers(told["handlers"], app_dir=told["app_dir"])
        return {"types": [description_of(one) for one in found.values()], "resident": resident_bytes(os.getpid())}

    _say(_answer(types))
    os._exit(0)  # whatever threads the import has left


def _run_job(told: Told, parent_pid: int) -> NoReturn:
    try:
        engine = own_engine(told["url"], answer_seconds=told["answer_seconds"])
        given = ChildStart(
            Database.of(engine, must_exist=True),
            described(told["type"], lambda: load_handlers(told["handlers"], app_dir=told["app_dir"])),
            parent_pid,
            [engine],
            told["reconnect_for"],
            StopRequest(STOP_FD),
            StackDump(DUMP_FD),
            told["device_env"],
            OUTPUT_FD,
        )
        lease = told["lease"]
        devices = {name: tuple(units) for name, units in lease["devices"].items()}
        run_child(Lease(**{**lease, "devices": devices}), given, REPORT_FD)
    except BaseException:  # noqa: BLE001 - above lies an interpreter's own way to end
        traceback.print_exc()
    os._exit(OWN_FAULT)


def _supervise(told: Told, parent_pid: int) -> NoReturn:
    from sqljobs.supervisor.supervise import Supervisor

    die_with(parent_pid)

    def run() -> dict[str, Any]:
        supervisor = Supervisor(told["url"], told["handlers"], app_dir=told["app_dir"], **told["options"])
        if threads := other_threads():
            raise Error(f"a fresh process has other threads, too ({', '.join(threads)}): use start_method='spawn'")
        return {"code": supervisor.run(), "endings": supervisor.endings}

    answer = _answer(run)
    _say(answer)
    sys.exit(answer.get("code", 1))


def _answer(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return work()
    except Error as error:
        return {"error": type(error).__name__, "text": str(error)}


def _say(answer: dict[str, Any]) -> None:
    with open(REPORT_FD, "w", encoding="ascii", closefd=False) as pipe:
        json.dump(answer, pipe)
