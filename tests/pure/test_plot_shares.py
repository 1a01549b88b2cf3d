"""The plot in docs/scheduling.md is the one that its script makes, and shows what the text beside it says."""

import xml.dom.minidom
from pathlib import Path

import pytest

from scripts.plot_shares import END, LATE, MINUTE, Span, is_present, picture, shares, simulate, targets

PLOT = Path(__file__).parents[2] / "docs" / "shares.svg"
SETTLED = 4 * MINUTE  # the window of the plot, and a job or two


@pytest.fixture(scope="module")
def spans() -> list[Span]:
    return simulate()


def test_the_plot_is_made_by_its_script(spans: list[Span]) -> None:
    drawn = picture(shares(spans))
    xml.dom.minidom.parseString(drawn)
    assert len(drawn) < 40_000
    assert drawn == PLOT.read_text(), "run `make shares` and commit docs/shares.svg"


def test_every_group_comes_to_its_share_in_each_part_of_the_plot(spans: list[Span]) -> None:
    for group, lines in targets().items():
        assert len(lines) == (1 if group == LATE else 3)
        for (since, share), (until, _) in lines:
            assert is_present(group, since)
            assert until <= END
            ran = [(span[0], _inside(span, since + SETTLED, until)) for span in spans]
            had = sum(seconds for who, seconds in ran if who == group)
            assert had / sum(seconds for _, seconds in ran) == pytest.approx(share, rel=0.05)


def _inside(span: Span, since: float, until: float) -> float:
    _, start, end = span
    return max(0.0, min(end, until) - max(start, since))
