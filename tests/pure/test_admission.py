"""A job gets all that it uses, or nothing, and never more than there is."""

from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.admission import Account, Kind, Refused, Room, admit, refusal, why_not
from sqljobs.supervisor.admitting import Admitting, Devices

M = 10**6
LATER = datetime(2026, 12, 1, tzinfo=UTC)
names = st.sampled_from("abc")
uses = st.dictionaries(names, st.integers(1, 5 * M), max_size=3)


def room(name: str, amount: int, used: int = 0, kind: Kind = Kind.RESOURCE, **more: datetime | None) -> Room:
    return Room(Account(name, ""), kind, amount, used, **more)  # type: ignore[arg-type]


@given(st.dictionaries(names, st.integers(0, 6 * M)), st.lists(uses, max_size=12))
def test_what_is_admitted_never_exceeds_a_limit(limits: Mapping[str, int], wishes: list[Mapping[str, int]]) -> None:
    rooms = {name: room(name, amount) for name, amount in limits.items()}
    given_away = dict.fromkeys(limits, 0)
    for wish in wishes:
        before = {name: one.used for name, one in rooms.items()}
        refused = admit(wish, rooms)
        if refused is None:
            for name, amount in wish.items():
                given_away[name] += amount
        else:
            assert {name: one.used for name, one in rooms.items()} == before
            lacks = rooms.get(refused.name)
            assert lacks is None or wish[refused.name] > lacks.left or lacks.amount == 0
    assert {name: one.used for name, one in rooms.items()} == given_away
    assert all(one.used <= one.amount for one in rooms.values())


def test_what_can_never_be_had_is_told_first_then_what_comes_back_last() -> None:
    rooms = {
        "a": room("a", M, M, Kind.RATE, frees_at=LATER),
        "b": room("b", M, M, Kind.BUDGET),
        "c": room("c", M),
    }
    assert why_not({"a": M, "b": M}, rooms) == Refused("limit", "b")
    assert why_not({"a": M, "c": 2 * M}, rooms) == Refused("impossible", "c")
    assert why_not({"a": M, "x": M}, rooms) == Refused("no_such_limit", "x")
    assert why_not({"a": M}, rooms) == Refused("limit", "a", LATER)
    assert why_not({"c": M}, rooms) is None


def test_a_closed_limit_may_open_again() -> None:
    assert refusal("a", M, room("a", 0)) == Refused("limit", "a")


def test_a_resource_comes_back_with_the_jobs_that_hold_it() -> None:
    assert refusal("a", M, room("a", M, M)) == Refused("limit", "a", passes=True)


def admitting(**more: object) -> Admitting:
    devices = Devices(total={"gpu": 2}, free={"gpu": 2}, elsewhere={"tpu"}, **more)  # type: ignore[arg-type]
    return Admitting({("usd", "g"): room("usd", 3 * M)}, devices)


def test_devices_and_limits_are_reserved_together() -> None:
    round_ = admitting()
    assert round_.admit(1, "g", {"gpu": M, "usd": M})
    assert round_.admit(2, "g", {"gpu": M, "usd": M})
    assert not round_.admit(3, "g", {"gpu": M, "usd": M})
    assert round_.refused[3] == Refused("device", "gpu", passes=True)
    assert round_.rooms["usd", "g"].used == 2 * M
    assert round_.units({"gpu": 2 * M, "usd": M}) == {"gpu": 2}


def test_devices_come_in_whole_units_of_which_there_are_so_many() -> None:
    for asked in (M // 2, 3 * M):
        assert admitting().why_not("g", {"gpu": asked}) == Refused("impossible", "gpu")


def test_a_device_of_others_cannot_be_had_here_and_an_unknown_name_nowhere() -> None:
    assert admitting().why_not("g", {"tpu": M}) == Refused("device", "tpu")
    assert admitting().why_not("g", {"x": M}) == Refused("no_such_limit", "x")


def test_no_unit_is_given_out_while_a_dead_predecessor_may_still_use_it() -> None:
    assert admitting(is_clear=False).why_not("g", {"gpu": M}) == Refused("device", "gpu", passes=True)
    assert admitting(is_clear=False).why_not("g", {"usd": M}) is None


def test_a_limit_beside_a_device_of_the_same_name_holds_too() -> None:
    round_ = Admitting({("gpu", "g"): room("gpu", M)}, Devices(total={"gpu": 2}, free={"gpu": 2}))
    assert round_.admit(1, "g", {"gpu": M})
    assert not round_.admit(2, "g", {"gpu": M})
    assert round_.refused[2].code == "limit"


def test_the_round_tells_when_time_alone_makes_room() -> None:
    round_ = Admitting({("api", "g"): room("api", M, M, Kind.RATE, frees_at=LATER)})
    assert not round_.would_admit(1, "g", {"api": M})
    assert round_.next_at() == LATER
    assert Admitting().next_at() is None
