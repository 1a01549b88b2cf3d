"""The amounts that a handler spends, before any database sees them."""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.schema.errors import InvalidJob
from sqljobs.worker_runtime.spending import checked


@pytest.mark.parametrize(
    ("amount", "micros"),
    [
        (733 * 0.15 / 1_000_000, 110),
        (Decimal(733) * Decimal("0.15") / 1_000_000, 110),
        (0.1 + 0.2, 300_000),
        (1e-9, 1),
        (Decimal("1e-12"), 1),
        (3, 3_000_000),
        ("0.000001", 1),
        (1e12, 10**18),
    ],
)
def test_what_was_computed_is_rounded(amount: Any, micros: int) -> None:
    assert checked("spend", "usd", amount) == ("usd", micros)


@pytest.mark.parametrize(
    "amount", [0, 0.0, -1, -0.5, float("nan"), float("inf"), Decimal("NaN"), Decimal("sNaN"), 1e13, "0.0000001", True]
)
def test_what_is_no_amount_is_refused(amount: Any) -> None:
    with pytest.raises(InvalidJob, match=r"^spend: amount must "):
        checked("spend", "usd", amount)


@given(st.floats(1e-12, 1e6) | st.decimals(Decimal("1e-12"), Decimal(10**6), allow_nan=False))
def test_rounding_takes_and_gives_less_than_a_millionth(amount: float | Decimal) -> None:
    _, micros = checked("spend", "usd", amount)
    assert micros >= 1
    assert abs(Fraction(micros, 10**6) - Fraction(amount)) < Fraction(1, 10**6)


def test_a_context_of_the_handlers_own_changes_nothing() -> None:
    with localcontext(prec=2):
        assert checked("spend", "usd", 12345.678901) == ("usd", 12_345_678_901)
        assert checked("take", "usd", Decimal("1234.5678915")) == ("usd", 1_234_567_892)
