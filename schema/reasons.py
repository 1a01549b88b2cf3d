"""Why a job does not start: facts in, reasons out, the one to remove first in front. Pure: no database, no clock."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime

from sqljobs.schema.admission import Kind, Room, refusal
from sqljobs.schema.amounts import MICRO, text_of
from sqljobs.schema.facts import Facts
from sqljobs.schema.holds import Hold
from sqljobs.schema.reason import BLOCKERS_SHOWN, Reason, many, moment, numbered, said
from sqljobs.schema.windows import shown_per

NOT_BEGUN = ("blocked", "scheduled", "ready", "waiting")
START = "`sqljobs run --handlers FILE` starts one"


def why_not(facts: Facts) -> list[Reason]:
    """All that keeps the job from starting now; an empty list when it may start at the next tick."""
    found = [*_dependencies(facts), *_time(facts), *_holds(facts), *_supervisors(facts)]
    found += [*_no_such_limits(facts), *_impossible(facts), *_limits(facts), *_devices(facts)]
    return [*found, *_turn(facts, is_free=not found)]


def why_not_begun(facts: Facts) -> list[Reason]:
    """What keeps a container, which needs no supervisor, from letting its members go."""
    return [*_dependencies(facts), *_holds(facts)]


def _dependencies(facts: Facts) -> Iterator[Reason]:
    for wait in facts.waits:
        if not wait.upstreams:
            text = f"it is in container {wait.container}, which has just begun: a supervisor lets it go in a moment"
            yield Reason("dependency", text, wait.container)
            continue
        ids = tuple(job_id for job_id, _, _ in wait.upstreams[:BLOCKERS_SHOWN])
        whom = numbered([f"{job_id} ({_shown(kind, state)})" for job_id, kind, state in wait.upstreams], wait.count)
        more = f": `sqljobs explain {ids[0]}` tells why that is not over" if wait.upstreams[0][2] in NOT_BEGUN else ""
        if wait.container is None:
            yield Reason("dependency", f"it waits for {whom}{more}", ids[0], blockers=ids)
        else:
            text = f"it is in container {wait.container}, which waits for {whom}{more}"
            yield Reason("dependency", text, wait.container, blockers=ids)


def _shown(job_type: str | None, state: str | None) -> str:
    return "pruned" if state is None else f"{said(job_type)}, {state}"


def _time(facts: Facts) -> Iterator[Reason]:
    if facts.due is not None:
        why = f", since {facts.tried}" if facts.tried else ""
        yield Reason("scheduled", f"it waits for its time, {moment(facts.due)}{why}", until=facts.due)


def _holds(facts: Facts) -> Iterator[Reason]:
    for hold, container in facts.holds:
        yield _held(hold, "" if container is None else f"it is in container {container}, and ", container)
    held = [facts.held_crews[crew.name] for crew in facts.able if crew.claims and crew.name in facts.held_crews]
    if held and not facts.claiming:
        others = "no other could run it" if len(held) == 1 else "so are all others that could run it"
        yield _held(held[0], f"{others}, and ")


def _held(hold: Hold, before: str, container: int | None = None) -> Reason:
    command = hold.kind if hold.name is None else f"{hold.kind} {_argument(hold.name)}"
    until = f", until {moment(hold.until)}" if hold.until is not None else ""
    return Reason(
        "hold", f"{before}{said(hold.text)}{until}: `sqljobs release {command}` ends that", container, hold.until
    )


def _argument(name: str) -> str:
    """For a shell, as the last words of a command."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


def _set_limit(name: str, option: str) -> str:
    words = f"{option} {_argument(name)}" if name.startswith("-") else f"{_argument(name)} {option}"
    return f"`sqljobs limit set {words}`"


def _supervisors(facts: Facts) -> Iterator[Reason]:
    crews = facts.fleet.crews
    knowing = [crew for crew in crews if facts.type in crew.types]
    if not crews:
        yield Reason("no_supervisor", f"no supervisor runs: {START}")
    elif not any(crew.claims for crew in knowing or crews):
        which = f"that knows type {facts.type!r} " if knowing else ""
        names = ", ".join(crew.name for crew in knowing or crews)
        yield Reason("no_supervisor", f"every supervisor {which}is on its way out ({said(names)}): {START}")
    if crews and not knowing:
        names = ", ".join(crew.name for crew in crews)
        yield Reason("unknown_type", f"no living supervisor has a handler for {facts.type!r} ({said(names)}): {START}")
    elif any(crew.claims for crew in knowing) and not any(crew.claims for crew in facts.able):
        names = ", ".join(crew.name for crew in knowing)
        text = f"the supervisors that have a handler for {facts.type!r} take nothing from group {facts.group!r}"
        yield Reason("unknown_type", f"{text} ({said(names)}): run one without --only-group, or with this group")


def _no_such_limits(facts: Facts) -> Iterator[Reason]:
    for name in facts.unknown:
        yield Reason(
            "no_such_limit",
            f"it uses {name!r}, but there is no limit of that name, and no supervisor with such a device:"
            f" {_set_limit(name, f'--resource {text_of(facts.uses[name])}')} makes one",
        )


def _refused(facts: Facts, code: str) -> Iterator[tuple[str, int, Room, datetime | None]]:
    for name, room in facts.rooms.items():
        found = refusal(name, facts.uses[name], room)
        if found is not None and found.code == code:
            yield name, facts.uses[name], room, found.until


def _impossible(facts: Facts) -> Iterator[Reason]:
    for name, asked, room, _ in _refused(facts, "impossible"):
        change = f"{_set_limit(name, f'--{room.kind.value} {text_of(asked)}')} would do"
        text = f"it asks for {text_of(asked)} of limit {name!r}, which has {text_of(room.amount)} in all: {change}"
        yield Reason("impossible", text)
    crews = facts.claiming or facts.able
    if not crews or facts.crews_with_all():
        return
    devices = [name for name in facts.known_uses if name in facts.fleet.devices or name not in facts.rooms]
    for name in devices:
        asked, most = facts.uses[name], max(crew.units.get(name, 0) for crew in crews)
        text = f"it asks for {text_of(asked)} of device {name!r}"
        if asked % MICRO:
            yield Reason("impossible", f"{text}, whose units are given out whole")
            return
        if asked > most * MICRO:
            yield Reason("impossible", f"{text}, of which no supervisor that could run it has more than {most}")
            return
    yield Reason("impossible", f"it asks for {_amounts(facts, devices)}, which no single supervisor has all of")


def _limits(facts: Facts) -> Iterator[Reason]:
    for name, asked, room, until in _refused(facts, "limit"):
        blockers = tuple(facts.holders.get(name, ()))[:BLOCKERS_SHOWN]
        text = _closed(name, room) if room.amount == 0 else _used_up(name, asked, room, until, blockers)
        yield Reason("limit", text, until=until, blockers=blockers)


def _closed(name: str, room: Room) -> str:
    return f"limit {name!r} is closed (set to 0): {_set_limit(name, f'--{room.kind.value} N')} opens it"


def _used_up(name: str, asked: int, room: Room, until: datetime | None, blockers: Sequence[int]) -> str:
    per = shown_per(room.per)
    window = "" if per is None else f" per {per}" if isinstance(per, str) else f" per {per}s"
    whose = f" for group {room.account.group!r}" if room.account.group else ""
    had = {Kind.RESOURCE: "are held", Kind.RATE: "were begun", Kind.BUDGET: "are spent or reserved"}[room.kind]
    text = f"it asks for {text_of(asked)} of limit {name!r}, and {text_of(room.used)} of its {text_of(room.amount)}"
    text += f"{window}{whose} {had}"
    if blockers and room.kind is not Kind.RATE:
        text += f" (by {numbered(blockers, None if len(blockers) < BLOCKERS_SHOWN else len(blockers))})"
    if until is not None:
        text += f"; some comes back at {moment(until)}"
    elif room.kind is Kind.BUDGET:
        text += f": {_set_limit(name, '--budget N')} gives more"
    return text


def _devices(facts: Facts) -> Iterator[Reason]:
    could = facts.crews_with_all()
    if could and not any(crew.has_free(units) for crew, units in could):
        names = sorted({name for _, units in could for name in units})
        users = sorted(
            job.job_id for crew, _ in could for job in crew.flying if any(name in job.units for name in names)
        )
        text = f"it asks for {_amounts(facts, names)}, and too few units are free: others are with {numbered(users)}"
        yield Reason("device", text, blockers=tuple(users[:BLOCKERS_SHOWN]))


def _turn(facts: Facts, *, is_free: bool) -> Iterator[Reason]:
    """`is_free`: nothing else keeps it from starting."""
    turn = facts.turn
    crews = facts.takers
    if turn is None or not crews:
        return
    place = (
        f"it is number {turn.place:,}{' or later' if turn.is_least else ''} of the ready jobs of group {facts.group!r}"
    )
    slots = sum(crew.slots for crew in crews)
    if not facts.has_free_slot:
        busy = sorted(job.job_id for crew in crews for job in crew.flying)
        where = numbered([crew.name for crew in crews], noun="supervisor")
        text = f"{'the only slot' if slots == 1 else f'all {slots:,} slots'} of {said(where)}"
        text += f" {'is' if slots == 1 else 'are'} busy, and {place}"
        yield Reason("rank", text, blockers=tuple(busy[:BLOCKERS_SHOWN]))
    elif is_free and not turn.starts:
        free = sum(crew.free_slots for crew in crews)
        comes = "comes" if len(turn.before) == 1 else "come"
        text = f"{many(free, 'slot')} of {slots:,} free, but {numbered(turn.before)} {comes} first; {place}"
        yield Reason("rank", text, blockers=turn.before[:BLOCKERS_SHOWN])


def _amounts(facts: Facts, names: Sequence[str]) -> str:
    return ", ".join(f"{text_of(facts.uses[name])} of {name!r}" for name in names)
