"""Option values at the door: what is taken, and that each refusal names the option, the value and what is allowed."""

import decimal
import math
from decimal import Decimal
from enum import IntEnum

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from sqljobs.schema import values
from sqljobs.schema.errors import InvalidJob


class Hostile:
    """An object that must not be asked for its text."""

    def __repr__(self) -> str:
        raise SystemExit("must not be called")

    __str__ = __repr__


class Rank(IntEnum):
    HIGH = 9


@pytest.mark.parametrize("name", ["a", "x" * 200, "report.render", "Größe 7", "a b", "😀" * 200, "a\u200b"])
def test_names_are_taken_as_they_are(name: str) -> None:
    assert values.check_name("group", name) == name


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *(("", "is empty"), ("x" * 201, "has 201 characters"), (" a", "space at its start or end")),
        *(("a\u00a0", "space at its start or end"), ("a\u2003", "space at its"), ("\u2028a", "space at its")),
        *(("a\0b", "control character (U+0000)"), ("a\tb", "(U+0009)"), ("a\n", "(U+000A)"), ("\x7f", "(U+007F)")),
        *(("a\x85", "(U+0085)"), ("a\ud800", "lone surrogate (U+D800)")),
        *((None, "not None"), (7, "not 7"), (b"a", "not a bytes"), (Hostile(), "not a Hostile"), (["a"], "not a list")),
    ],
)
def test_other_names_are_refused(name: object, fault: str) -> None:
    with pytest.raises(InvalidJob) as refusal:
        values.check_name("group", name)
    text = str(refusal.value)
    assert text.startswith("group ")
    assert fault in text
    assert "200 characters" in text
    assert text.isprintable()


@given(st.text(max_size=210))
def test_a_name_that_is_taken_is_storable(name: str) -> None:
    try:
        taken = values.check_name("key", name)
    except InvalidJob:
        reject()
    assert taken == name == name.strip()
    assert 1 <= len(name.encode()) <= 800
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in name)


def test_counts_and_priorities() -> None:
    assert values.check_count("weight", 1) == 1
    assert values.check_count("weight", values.MAX_COUNT) == 10**9 < 2**31
    assert values.check_priority(-1000) == -1000
    assert values.check_priority(1000) == 1000
    assert type(values.check_priority(Rank.HIGH)) is int


@pytest.mark.parametrize(
    "value", [0, -1, True, 1.0, "1", None, 10**9 + 1, 2**40, pytest.param(10**5000, id="huge"), Hostile(), math.nan]
)
def test_other_counts_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"^max_attempts must be a whole number from 1 to 1000000000, not "):
        values.check_count("max_attempts", value)


@pytest.mark.parametrize("value", [-1001, 1001, False, 0.0, "high", None])
def test_other_priorities_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"^priority must be a whole number from -1000 to 1000, not "):
        values.check_priority(value)


def test_timeouts_and_memory() -> None:
    assert values.check_timeout(0) == 0.0
    assert values.check_timeout("40h") == 144000.0
    assert values.check_timeout("3650d") == values.MAX_TIMEOUT
    assert values.check_memory("2GiB") == 2**31
    for value in ("3651d", 1e300, 0.0001, 5e-324):
        with pytest.raises(InvalidJob, match=r"^timeout must be 0 \(none\) or from 1ms to 3650d, not "):
            values.check_timeout(value)
    with pytest.raises(InvalidJob, match=r"^timeout must not be below 0, as -1 is"):
        values.check_timeout(-1)
    with pytest.raises(InvalidJob, match=r"^memory must be above 0, not '0'"):
        values.check_memory("0")
    with pytest.raises(InvalidJob, match=r"^memory must be bytes or text such as 500MB or 2GiB, not 1\.5"):
        values.check_memory(1.5)


def test_choices() -> None:
    assert values.check_on_conflict("return") == "return"
    assert values.check_on_conflict("raise") == "raise"
    assert values.check_key_for("ever") == "ever"
    assert values.check_key_for("open") == "open"
    with pytest.raises(
        InvalidJob, match=r"^on_conflict must be 'return' or 'raise', not 'rais' \(did you mean 'raise'\?\)$"
    ):
        values.check_on_conflict("rais")
    for value in (None, True, ["open"], Hostile(), "forever and ever"):
        with pytest.raises(InvalidJob, match=r"^key_for must be 'open' or 'ever', not "):
            values.check_key_for(value)


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        *((1, "1"), (0.1, "0.1"), (2.50, "2.5"), ("0.000001", "0.000001"), (Decimal("1.5000000000"), "1.5")),
        *((Decimal("1E+3"), "1000"), (10**12, "1000000000000"), (1e-6, "0.000001"), ("3", "3")),
    ],
)
def test_amounts_are_exact(value: object, amount: str) -> None:
    with decimal.localcontext() as context:
        context.prec = 2  # the caller's own decimal context has no say
        assert str(values.check_amount("gpu", value)) == amount


@given(st.integers(1, 10**18))
def test_every_millionth_is_kept(micros: int) -> None:
    amount = Decimal(micros).scaleb(-6)
    assert values.check_amount("gpu", amount) == amount == values.check_amount("gpu", str(amount))


@pytest.mark.parametrize("value", [1 / 3, "0.0000011", Decimal("1.0000001")])
def test_more_than_six_places_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"^gpu must have at most six decimal places, not "):
        values.check_amount("gpu", value)


@pytest.mark.parametrize(
    "value",
    [
        *(
            0,
            -1,
            True,
            None,
            "",
            "many",
            "9" * 100,
            math.nan,
            math.inf,
            [],
            Hostile(),
            10**12 + 1,
            pytest.param(10**400, id="huge"),
        ),
        *(
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
            Decimal("1E+999999"),
            Decimal("1E-999999"),
            1e-7,
            "\ud800",
        ),
    ],
)
def test_other_amounts_are_refused(value: object) -> None:
    with pytest.raises(InvalidJob, match=r"^gpu must be a number from 0\.000001 to 1000000000000, not "):
        values.check_amount("gpu", value)


def test_a_limit_may_be_closed() -> None:
    assert values.check_amount("limit 'gpu'", 0, zero=True) == 0
    with pytest.raises(InvalidJob, match="from 0 to"):
        values.check_amount("limit 'gpu'", -1, zero=True)


def test_uses() -> None:
    assert values.check_uses({"gpu": 1, "eur": "0.25"}) == {"gpu": Decimal(1), "eur": Decimal("0.25")}
    assert list(values.check_uses({"b": 1, "a": 1})) == ["b", "a"]
    assert values.check_uses({}) == {}
    with pytest.raises(InvalidJob, match=r"^uses must map names to amounts, as in \{'gpu': 1\}, not a list$"):
        values.check_uses(["gpu"])
    with pytest.raises(InvalidJob, match=r"^uses\['gpu'\] must be a number from .*, not 0$"):
        values.check_uses({"gpu": 0})
    with pytest.raises(InvalidJob, match=r"^uses: name ' gpu' has a space"):
        values.check_uses({" gpu": 1})
    with pytest.raises(InvalidJob, match=r"^uses: name must be text"):
        values.check_uses({7: 1})


def test_nearest() -> None:
    assert values.nearest("widht", ["path", "width"]) == " (did you mean 'width'?)"
    assert values.nearest("zzz", ["path", "width"]) == ""
    assert values.nearest(7, ["path"]) == ""
    assert values.nearest("x" * 10**6, ["x" * 10]) == ""
