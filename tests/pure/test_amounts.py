"""Amounts are exact to six places, whatever the context of decimals is."""

from decimal import Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.amounts import decimal_of, micros_of, number_of, numbers_of, text_of, uses_key

amounts = st.integers(-(10**18), 10**18)


@given(amounts)
def test_amounts_come_back_as_they_were(micros: int) -> None:
    with localcontext() as context:
        context.prec = 3  # as a handler may have set it
        assert micros_of(decimal_of(micros)) == micros
        assert micros_of(Decimal(text_of(micros))) == micros


@given(st.integers(-(10**12), 10**12))
def test_numbers_are_what_json_shows(micros: int) -> None:
    number = number_of(micros)
    assert isinstance(number, int) == (micros % 10**6 == 0)
    assert micros_of(Decimal(repr(number))) == micros


def test_amounts_are_written_without_needless_digits() -> None:
    assert [text_of(micros) for micros in (0, 1, 250_000, 3_000_000, -1_500_000)] == [
        "0",
        "0.000001",
        "0.25",
        "3",
        "-1.5",
    ]
    assert numbers_of({"usd": Decimal("0.1"), "gpu": Decimal(2)}) == {"usd": 0.1, "gpu": 2}
    assert numbers_of(None) is None


def test_the_key_of_uses_tells_amounts_apart_and_not_how_they_are_written() -> None:
    assert uses_key(None) == ""
    assert uses_key({}) != ""
    assert uses_key({"a": Decimal(1), "b": Decimal("0.5")}) == uses_key({"b": Decimal("0.50"), "a": Decimal("1.0")})
    assert uses_key({"a": Decimal(1)}) != uses_key({"a": Decimal(2)}) != uses_key({"b": Decimal(2)})
    assert len(uses_key({"a": Decimal(1)})) == 16
