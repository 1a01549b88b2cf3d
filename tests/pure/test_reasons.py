"""The rules of `explain` alone: every reason that holds, in one order; none left once each is removed."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.admission import Account, Kind, Room
from sqljobs.schema.amounts import MICRO
from sqljobs.schema.crew import Crew, Fleet, Flying
from sqljobs.schema.facts import Facts, Wait
from sqljobs.schema.holds import Hold
from sqljobs.schema.reason import numbered
from sqljobs.schema.reasons import why_not, why_not_begun
from sqljobs.schema.turns import Contender, Field, Shares, Turn, rehearse_turn

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
ORDER = [
    *("dependency", "scheduled", "hold", "no_supervisor", "unknown_type", "no_such_limit", "impossible"),
    *("limit", "device", "rank"),
]
LIMITS, DEVICES = ("api", "usd"), ("gpu", "tpu")


# Drawn from a seed: strategies for all these parts would take longer to draw than the rules take to run.
SEEDS = st.integers(0, 2**32)


def some_crew(rng: Random, name: str = "s") -> Crew:
    units = {device: rng.randint(1, 3) for device in DEVICES if rng.random() < 0.5}
    slots = rng.randint(1, 3)
    left, flying = dict(units), []
    for number in range(rng.randint(0, slots)):
        taken = {device: rng.randint(0, count) for device, count in left.items()}
        left = {device: count - taken[device] for device, count in left.items()}
        flying.append(Flying(100 + number, "g", 1.0, {device: count for device, count in taken.items() if count}))
    return Crew(
        name=name,
        slots=slots,
        types=frozenset(rng.choice(["t", "tu", "tuv", "u"])),
        groups=rng.choice([None, None, frozenset("g"), frozenset("h")]),
        claims=rng.random() < 0.8,
        units=units,
        flying=tuple(flying),
    )


def some_room(rng: Random, name: str) -> Room:
    kind, amount, used = rng.choice(list(Kind)), rng.randint(0, 3), rng.randint(0, 4)
    return Room(Account(name, ""), kind, amount * MICRO, used * MICRO, per="60")


def some_facts(seed: int) -> Facts:
    rng = Random(seed)
    fleet = [some_crew(rng, f"s{number}") for number in range(rng.randint(0, 3))]
    uses = {name: rng.choice([1, 2, 4, 8]) * MICRO // 2 for name in LIMITS + DEVICES if rng.random() < 0.3}
    return Facts(
        "t",
        "g",
        waits=rng.choice([(), (), (Wait([(1, "t", "ready")], 1),), (Wait([(1, None, None)], 30, container=2),)]),
        due=rng.choice([None, NOW]),
        holds=rng.choice([(), ((Hold("type", "t", None, NOW, None), None),)]),
        held_crews={c.name: Hold("supervisor", c.name, "why", NOW, NOW) for c in fleet if rng.random() < 0.3},
        fleet=Fleet(fleet, frozenset(device for crew in fleet for device in crew.units)),
        uses=uses,
        rooms={name: some_room(rng, name) for name in uses if rng.random() < 0.6},
        turn=rng.choice([None, Turn(rng.random() < 0.5, (5,), rng.randint(1, 9))]),
    )


def some_contenders(rng: Random) -> list[Contender]:
    return [
        Contender(
            *(2 + number, rng.choice("tuv"), rng.choice("gh"), rng.randint(1, 3), rng.randint(-1, 1)),
            created_at=float(rng.randint(0, 5)),
            uses=rng.choice([{}, {"api": MICRO}, {"gpu": MICRO}]),
        )
        for number in range(rng.randint(0, 8))
    ]


def removed(facts: Facts, code: str) -> Facts:
    """The same once that is no longer so, by what an operator, an end or the time would do."""
    match code:
        case "dependency":
            return replace(facts, waits=())
        case "scheduled":
            return replace(facts, due=None)
        case "hold":
            return replace(facts, holds=(), held_crews={})
        case "no_supervisor" | "unknown_type" | "device" | "impossible" | "rank":
            units = {name: 9 for name in facts.uses if name in facts.fleet.known_devices}
            enough = {name: replace(room, amount=max(room.amount, 9 * MICRO)) for name, room in facts.rooms.items()}
            whole = {name: max(MICRO, amount // MICRO * MICRO) for name, amount in facts.uses.items()}
            crew = Crew("new", 9, frozenset("t"), units=units)
            fleet = Fleet([*facts.fleet.crews, crew], facts.fleet.known_devices)
            turn = None if facts.turn is None else replace(facts.turn, starts=True)
            changes: dict[str, Any] = {"fleet": fleet, "turn": turn}
            if code == "impossible":
                changes |= {"rooms": enough, "uses": whole}
            return replace(facts, **changes)
        case "no_such_limit":
            made = {name: Room(Account(name, ""), Kind.RESOURCE, 9 * MICRO) for name in facts.unknown}
            return replace(facts, rooms={**facts.rooms, **made})
    assert code == "limit"
    wider = {name: replace(room, amount=room.used + 9 * MICRO) for name, room in facts.rooms.items()}
    return replace(facts, rooms=wider)


@given(SEEDS)
def test_codes_come_in_one_order(seed: int) -> None:
    reasons = why_not(some_facts(seed))
    codes = [reason.code for reason in reasons]
    assert codes == sorted(codes, key=ORDER.index)
    for reason in reasons:
        assert reason.text
        assert "\n" not in reason.text
        assert len(reason.blockers) <= 20


@given(SEEDS)
def test_what_is_removed_is_not_told_again(seed: int) -> None:
    facts = some_facts(seed)
    for _ in range(2 * len(ORDER)):
        codes = [reason.code for reason in why_not(facts)]
        if not codes:
            return
        facts = removed(facts, codes[0])
        assert codes[0] not in [reason.code for reason in why_not(facts)]
    raise AssertionError(f"there is always something: {why_not(facts)}")


@given(SEEDS)
def test_an_empty_list_means_that_somebody_could_take_it(seed: int) -> None:
    facts = replace(some_facts(seed), waits=(), due=None, holds=(), turn=Turn(True, (), 1))
    if why_not(facts):
        return
    free = [crew for crew in facts.takers if crew.free_slots]
    assert free
    for crew in free:
        needs = crew.needs(facts.uses, facts.rooms)
        assert needs is not None
        assert crew.has_free(needs)
    assert all(room.left >= facts.uses[name] for name, room in facts.rooms.items())


@given(SEEDS)
def test_a_container_needs_no_supervisor(seed: int) -> None:
    assert {reason.code for reason in why_not_begun(some_facts(seed))} <= {"dependency", "hold"}


@given(SEEDS)
def test_whoever_comes_first_is_counted_once(seed: int) -> None:
    rng = Random(seed)
    others, fleet, left = some_contenders(rng), [some_crew(rng) for _ in range(rng.randint(1, 3))], rng.randint(0, 2)
    mine = Contender(1, "t", "g", 1, 0, 3.0, {"api": MICRO})
    found = {("api", group): Room(Account("api", ""), Kind.RESOURCE, left * MICRO) for group in "gh"}
    turn = rehearse_turn(mine, Field(fleet, others, found, Shares()))
    assert len(set(turn.before)) == len(turn.before)
    assert mine.job_id not in turn.before
    assert len(turn.before) <= sum(crew.free_slots for crew in fleet)
    assert sum("api" in job.uses for job in others if job.job_id in turn.before) <= left
    could = any(crew.may_claim("t", "g") and crew.free_slots for crew in fleet)
    if turn.starts:
        assert could
        assert left
    elif could and left:
        assert turn.before
    assert all(room.used == 0 for room in found.values())  # it is a rehearsal


@given(SEEDS)
def test_alone_it_starts_wherever_a_slot_is_free(seed: int) -> None:
    rng = Random(seed)
    fleet = [some_crew(rng) for _ in range(rng.randint(1, 3))]
    turn = rehearse_turn(Contender(1, "t", "g", 1, 0, 0.0), Field(fleet, [], {}, Shares()))
    assert turn.starts == any(crew.may_claim("t", "g") and crew.free_slots for crew in fleet)
    assert turn.place == 1


def test_groups_take_turns_by_what_they_had() -> None:
    fleet = [Crew("s", 1, frozenset("t"))]
    mine, other = Contender(1, "t", "g", 1, 0, 5.0), Contender(2, "t", "h", 1, 0, 9.0)
    for had, starts in (({"g": 10.0}, False), ({"h": 10.0}, True), ({}, True)):
        assert rehearse_turn(mine, Field(fleet, [other], {}, Shares(had))).starts is starts
    heavy = Shares({"g": 10.0, "h": 10.0}, {"h": 2})
    assert rehearse_turn(mine, Field(fleet, [other], {}, heavy)).before == (2,)


def test_numbered() -> None:
    assert numbered([4]) == "job 4"
    assert numbered([4, 5]) == "jobs 4 and 5"
    assert numbered([4, 5, 6, 7]) == "jobs 4, 5, 6 and 7"
    assert numbered([4, 5, 6, 7, 8]) == "jobs 4, 5, 6 and 2 more"
    assert numbered([4, 5, 6], 1000) == "jobs 4, 5, 6 and 997 more"
