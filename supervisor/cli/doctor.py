"""`sqljobs doctor`: look for rows that break a rule, and with --repair compute counters anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click

from sqljobs.schema.doctor import REPAIRABLE, Finding, check_up
from sqljobs.supervisor.cli.call import Call, common_options, pass_call
from sqljobs.supervisor.cli.failures import ANSWER_IS_NO
from sqljobs.supervisor.cli.output import print_json, print_lines

_COUNTERS = frozenset(rule.code for rule in REPAIRABLE)


@click.command("doctor")
@click.option("--repair", is_flag=True, help="Compute counters anew, and the states that follow from them.")
@common_options
@pass_call
def doctor(call: Call, repair: bool) -> int:
    """Check what must always hold of the rows. Ends 0 when all is well, 1 when something is broken.

    Reads only, unless --repair is given, and may run while supervisors do. With --repair: 0 when nothing is left."""
    with call.database() as database:
        findings = check_up(database, repair=repair)
    broken = any(finding.is_broken for finding in findings)
    if call.as_json:
        print_json({"clean": not broken, "findings": [asdict(finding) for finding in findings]})
    else:
        print_lines([*(_line(finding) for finding in findings), *_summary(findings, broken, repair)])
    return ANSWER_IS_NO if broken else 0


def _line(finding: Finding) -> str:
    ids = ", ".join(map(str, finding.job_ids))
    left_out = finding.count - finding.repaired - len(finding.job_ids)
    more = f" and {left_out:,} more" if left_out > 0 else ""
    jobs = f"job {ids}" if finding.count == 1 else f"{finding.count:,} jobs ({ids}{more})"
    repaired = f"; {finding.repaired:,} repaired" if finding.repaired else ""
    kind = "warning" if finding.warning else "broken" if finding.is_broken else "repaired"
    return f"{kind}: {finding.code}: {finding.text}: {jobs}{repaired if kind == 'broken' else ''}"


def _summary(findings: Sequence[Finding], broken: bool, repair: bool) -> list[str]:
    if not broken:
        return [] if findings else ["nothing is wrong"]
    left = [finding.code for finding in findings if finding.is_broken]
    if not repair and _COUNTERS & set(left):
        return ["counters can be computed anew: run `sqljobs doctor --repair`"]
    return [
        "what is left cannot be repaired by itself: look with `sqljobs show ID`,"
        " and please report it with the output of `sqljobs doctor --json`"
    ]
