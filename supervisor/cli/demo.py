"""`sqljobs demo`: an index of a real source tree by real jobs; the demo itself is sqljobs.demo."""

from __future__ import annotations

from pathlib import Path

import click

from sqljobs.schema.errors import InvalidJob
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.output import print_json, print_lines


@click.command("demo")
@click.option("--path", type=click.Path(path_type=Path), metavar="DIR", help="Index this folder of Python sources.")
@click.option("--slots", type=click.IntRange(min=1), metavar="N", help="Jobs at once (default 6).")
@click.option(
    "--eject", type=click.Path(path_type=Path), metavar="DIR", help="Only write its code there, to start from."
)
@common_options
@pass_call
def demo(call: Call, path: Path | None, slots: int | None, eject: Path | None) -> int:
    """Index a folder of source code with jobs, live; shows what was found and what each job cost."""
    config = call.config()
    if eject is not None:
        return _eject(call, path, slots, eject)
    from sqljobs.demo.show import run_demo

    return run_demo(url=config.url, path=path, slots=slots, json_output=call.as_json)


def _eject(call: Call, path: Path | None, slots: int | None, directory: Path) -> int:
    if path is not None or slots is not None:
        raise InvalidJob("--eject only writes files: leave --path and --slots out")
    from sqljobs.demo.eject import eject

    written = [str(file) for file in eject(directory)]
    if call.as_json:
        print_json(written)
    else:
        print_lines(written)
    return 0
