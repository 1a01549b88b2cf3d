"""Write docs/shares.svg: who has had the slots over time, simulated with the functions that a supervisor decides with.

`python -m scripts.plot_shares`, from the root of the repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random

from stress.simulation import Simulation

Point = tuple[float, float]
Span = tuple[str, float, float]

MINUTE = 60.0
WEIGHTS = {"a": 1, "b": 2, "c": 5, "d": 4}
LATE, COMES, GOES, END = "d", 30 * MINUTE, 60 * MINUTE, 90 * MINUTE
SLOTS = [2, 1]
SHORTEST, LONGEST = 2.0, 20.0
WINDOW, EVERY = 3 * MINUTE, 0.5 * MINUTE

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 420, 52, 150, 64, 46
MOST = 0.8
COLOURS = {"a": "#c9713f", "b": "#2f9e8f", "c": "#4d8fd6", "d": "#c0608f"}
STYLE = """
  svg { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
  .page { fill: #ffffff; stroke: #d5d9e0; } .grid { stroke: #e3e6eb; } .event { stroke: #8a94a3; }
  .title { fill: #1c2430; font-size: 16px; font-weight: 600; } .note { fill: #5b6573; font-size: 12px; }
  .share { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
  .target { fill: none; stroke-width: 1.4; stroke-dasharray: 5 4; stroke-opacity: 0.8; }
  .name { font-size: 13px; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #141a22; stroke: #2c3542; } .grid { stroke: #2a3340; } .event { stroke: #7b8797; }
    .title { fill: #eef2f7; } .note { fill: #a3afbf; }
  }
"""


def is_present(group: str, now: float) -> bool:
    """Whether the group has work: all have always, but for one."""
    return group != LATE or COMES <= now < GOES


def simulate() -> list[Span]:
    """What ran when: group, start and end in seconds. Two supervisors, job lengths by a fixed seed."""
    lengths = Random(5)
    run = Simulation(WEIGHTS, SLOTS, lambda _: lengths.uniform(SHORTEST, LONGEST), is_present)
    while run.now < END + LONGEST:
        run.turn()
    return run.spans


def shares(spans: Iterable[Span]) -> dict[str, list[Point]]:
    """By group: its part of all slot time of the last three minutes, at moments half a minute apart."""
    listed = list(spans)
    found: dict[str, list[Point]] = {group: [] for group in WEIGHTS}
    for number in range(2, int(END / EVERY) + 1):
        until = number * EVERY
        since = max(0.0, until - WINDOW)
        had = dict.fromkeys(WEIGHTS, 0.0)
        for group, start, end in listed:
            had[group] += max(0.0, min(end, until) - max(start, since))
        for group, seconds in had.items():
            if is_present(group, until):
                found[group].append((until, seconds / sum(had.values())))
    return found


def targets() -> dict[str, list[list[Point]]]:
    """By group: the lines of its share by weight, one for each time in which it has work."""
    found: dict[str, list[list[Point]]] = {group: [] for group in WEIGHTS}
    for since, until in ((0.0, COMES), (COMES, GOES), (GOES, END)):
        present = {group: weight for group, weight in WEIGHTS.items() if is_present(group, since)}
        for group, weight in present.items():
            share = weight / sum(present.values())
            found[group].append([(since, share), (until, share)])
    return found


def picture(had: Mapping[str, list[Point]]) -> str:
    """The plot as SVG text."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title">',
        '<title id="title">Share of slot time over time, by group, beside its share by weight</title>',
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        f'<text class="title" x="{LEFT}" y="28">Share of slot time over the last three minutes</text>',
        f'<text class="note" x="{LEFT}" y="47">3 slots on two supervisors, jobs of 2 to 20 s;'
        " dashed: share by weight; group d has work from minute 30 to 60</text>",
        *_axes(),
    ]
    for group in WEIGHTS:
        lines += [_line("target", group, points) for points in targets()[group]]
    for group, points in had.items():
        lines.append(_line("share", group, points))
        at, share = points[-1]
        x, y = (_x(at) + 8, _y(share) + 5)
        name = f"{group}, weight {WEIGHTS[group]}"
        lines.append(f'<text class="name" x="{x:.1f}" y="{y:.1f}" fill="{COLOURS[group]}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _axes() -> Iterator[str]:
    for percent in range(0, int(MOST * 100) + 1, 20):
        y = _y(percent / 100)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="note" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'
    for minute in range(0, int(END / MINUTE) + 1, 10):
        x, bottom = _x(minute * MINUTE), HEIGHT - BOTTOM
        yield f'<text class="note" x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{minute}</text>'
        if minute * MINUTE in (COMES, GOES):
            yield f'<line class="event" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text class="note" x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">minutes</text>'


def _line(kind: str, group: str, points: Iterable[Point]) -> str:
    told = " ".join(f"{_x(at):.1f},{_y(share):.1f}" for at, share in points)
    return f'<polyline class="{kind}" stroke="{COLOURS[group]}" points="{told}"/>'


def _x(at: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / END


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share / MOST


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "shares.svg"
    page.write_text(picture(shares(simulate())))
