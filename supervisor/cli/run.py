"""`sqljobs run`: the supervisor, its settings from sqljobs.toml and over them from the flags."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import FrameType
from typing import Any

import click

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.limit_rules import Limit
from sqljobs.schema.limit_settings import create_limits
from sqljobs.schema.transactions import Transaction
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.config import Config
from sqljobs.supervisor.devices import units_by_name, variables_by_name
from sqljobs.supervisor.logs import supervisor_log


@click.command("run")
@click.option("--handlers", multiple=True, metavar="MODULE_OR_FILE...", help="Where the job types are.")
@click.argument("more_handlers", nargs=-1, metavar="")
@click.option("--app-dir", metavar="DIR", help="Where handlers modules are looked for (default: here).")
@click.option("--slots", type=int, metavar="N", help="Jobs at once (default: usable CPUs).")
@click.option("--name", metavar="NAME", help="This supervisor's name (default: the host's).")
@click.option("--until-idle", is_flag=True, default=None, help="End when nothing is left to do within the hour.")
@click.option("--only-type", multiple=True, metavar="TYPE", help="Claim only these types; repeatable.")
@click.option("--only-group", multiple=True, metavar="GROUP", help="Claim only these groups; repeatable.")
@click.option("--device", multiple=True, metavar="NAME=UNITS", help="Units that jobs get, as gpu=0,1; repeatable.")
@click.option("--device-env", multiple=True, metavar="NAME=VARIABLE", help="Tell a job its units in this variable.")
@click.option("--heartbeat", metavar="DURATION", help="Renew all leases this often (default 10s).")
@click.option("--ttl", metavar="DURATION", help="A lease lapses after this long (default 60s).")
@click.option("--deadline", metavar="DURATION", help="Trust a lease that cannot be renewed so long (default 40s).")
@click.option("--kill-grace", metavar="DURATION", help="From asking a job to stop to SIGKILL (default 5s).")
@click.option("--grace", metavar="DURATION", help="After SIGTERM let jobs end for so long (default 30s).")
@click.option("--poll", metavar="FAST-SLOW", help="Pause between looks at the queue (default 0.05s-2s).")
@click.option("--aging", metavar="DURATION", help="Waiting this long is worth a point of priority (default 600s).")
@click.option("--on-lease-lost", metavar="keep|kill", help="Jobs at the deadline (default: keep on SQLite, else kill).")
@click.option("--no-preload", is_flag=True, default=None, help="Import the handlers in each job, not in here.")
@click.option("--start-method", metavar="fork|spawn", help="How a job's process comes to be (default fork).")
@common_options
@pass_call
def run(call: Call, /, handlers: tuple[str, ...], more_handlers: tuple[str, ...], **flags: Any) -> int:
    """Run jobs: claim, start each in a process of its own, see it to its end.

    SIGTERM and Ctrl-C let running jobs end for --grace; a second one hurries."""
    # Nothing is claimed yet: until the supervisor catches signals itself, the asked-for end is at once, and a good one.
    signal.signal(signal.SIGTERM, _leave)
    if more_handlers and not handlers:
        raise InvalidJob(f"write --handlers before {more_handlers[0]!r}: sqljobs run --handlers {more_handlers[0]}")
    config = call.config()
    options = {**config.run, **{name: value for name, value in flags.items() if value not in (None, ())}}
    if flags["no_preload"] or flags["start_method"] == "spawn":
        options.pop("preload", None)  # what the file says of it does not hold
    # Device by device: a flag for one leaves the others of the file.
    options["device"] = {**units_by_name(config.run.get("device", ())), **units_by_name(flags["device"])}
    options["device_env"] = {
        **variables_by_name(config.run.get("device_env", ())),
        **variables_by_name(flags["device_env"]),
    }
    modules = (*handlers, *more_handlers) or options.pop("handlers", ())
    options.pop("handlers", None)
    if not modules:
        raise InvalidJob("run needs --handlers MODULE_OR_FILE, the place of your job types")
    with call.engine(config):
        pass  # refuses what no driver could be had for
    # Loaded here: the supervisor needs Linux, the other commands run anywhere.
    from sqljobs.supervisor.supervise import Supervisor

    supervisor = Supervisor(config.url, modules, **options)
    if config.limits:
        _create_limits(call, config)
    code = supervisor.run()
    if supervisor.settings.until_idle and code == 0:
        supervisor_log(supervisor.settings.name).unbind("supervisor").info(_summary(supervisor.endings))
    return code


def _create_limits(call: Call, config: Config) -> None:
    """Those of sqljobs.toml that are not there; what is there was set by somebody who knew."""

    def create(tx: Transaction) -> list[Limit]:
        return create_limits(tx, config.limits)

    with call.database(config) as database:
        # What a lost COMMIT has made is not made again.
        database.transaction("limits", create, settle=create)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _summary(endings: Mapping[str, int]) -> str:
    """`until idle: 12 attempts ended (10 done, 2 error)`."""
    total = sum(endings.values())
    parts = ", ".join(f"{count} {cause}" for cause, count in sorted(endings.items()))
    return f"until idle: {total} attempt{'' if total == 1 else 's'} ended" + (f" ({parts})" if parts else "")
