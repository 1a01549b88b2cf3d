"""The picture of a run, as SVG text: which slot ran which group when. Pure: no database, file or clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

PALETTE = ("#e0a312", "#8195ae", "#c9713f", "#2f9e8f", "#7a6fc0", "#4d8fd6", "#c0608f", "#7d9a3c")
"""Fill colours in order of weight; mid-tones that carry white or black text on a light and on a dark page."""

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960, 62, 24, 92, 46
ROW, GAP = 28, 6
LETTER = 6.1
"""Width of a letter in a bar's label, in pixels, with room to spare."""

STYLE = """
  svg { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
  .page { fill: #ffffff; stroke: #d5d9e0; } .lane { fill: #f1f3f6; } .grid { stroke: #d5d9e0; }
  .title { fill: #1c2430; font-size: 17px; font-weight: 600; } .note { fill: #5b6573; font-size: 12px; }
  .axis { fill: #5b6573; font-size: 11px; } .label { fill: #10151c; font-size: 10.5px; }
  .failed { stroke: #cf2a2a; stroke-width: 2; } .disc { fill: #cf2a2a; }
  .cross { stroke: #ffffff; stroke-width: 1.8; stroke-linecap: round; fill: none; }
  .stripe { stroke: #cf2a2a; stroke-width: 2.5; stroke-opacity: 0.6; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #141a22; stroke: #2c3542; } .lane { fill: #1d2530; } .grid { stroke: #2f3947; }
    .title { fill: #eef2f7; } .note, .axis { fill: #a3afbf; }
    .failed, .stripe { stroke: #ff5a55; } .disc { fill: #e03b37; }
  }
"""


@dataclass(frozen=True)
class TimelineAttempt:
    """One attempt: `start` and `end` in seconds on one clock; `cause` as the contract names it."""

    name: str
    group: str
    weight: int
    attempt: int
    cause: str
    start: float
    end: float

    @property
    def failed(self) -> bool:
        """Whether this attempt ended in any other way than `done`."""
        return self.cause != "done"


def assign_rows(attempts: Sequence[TimelineAttempt]) -> list[tuple[int, TimelineAttempt]]:
    """Give each attempt, in order of start, a free row; one that its group used last, if there is one."""
    ends: list[float] = []
    groups: list[str] = []
    placed = []
    for attempt in sorted(attempts, key=lambda a: (a.start, -a.weight, a.group, a.end)):
        free = [row for row, end in enumerate(ends) if end <= attempt.start]
        if free:
            row = min(free, key=lambda row: (groups[row] != attempt.group, row))
        else:
            row = len(ends)
            ends.append(0.0)
            groups.append("")
        ends[row], groups[row] = attempt.end, attempt.group
        placed.append((row, attempt))
    order = {row: place for place, row in enumerate(sorted(range(len(ends)), key=lambda row: heaviness(row, placed)))}
    return [(order[row], attempt) for row, attempt in placed]


def heaviness(row: int, placed: Sequence[tuple[int, TimelineAttempt]]) -> tuple[float, int]:
    """Sorts rows so that those which mostly ran heavy groups come first: alike rows are easier to read together."""
    mine = [attempt for place, attempt in placed if place == row]
    seconds = sum(a.end - a.start for a in mine)
    return -sum(a.weight * (a.end - a.start) for a in mine) / (seconds or 1.0), row


def tick_seconds(span: float, most: int = 10) -> float:
    """The step between ticks: 1, 2 or 5 times a power of ten, for at most `most` steps in `span` seconds."""
    least = max(span, 1e-6) / most
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def timeline_svg(attempts: Sequence[TimelineAttempt], title: str = "Which slot ran which group when") -> str:
    """One SVG document, readable on light and dark pages; any text in `attempts` is safe to pass."""
    zero = min((a.start for a in attempts), default=0.0)
    span = max((a.end for a in attempts), default=zero + 1.0) - zero or 1.0
    rows = assign_rows(attempts)
    count = max((row for row, _ in rows), default=0) + 1
    height = TOP + count * (ROW + GAP) - GAP + BOTTOM
    scale = (WIDTH - LEFT - RIGHT) / span
    groups = sorted({(-a.weight, a.group) for a in attempts})
    colours = {group: PALETTE[place % len(PALETTE)] for place, (_, group) in enumerate(groups)}
    note = f"{len(attempts)} attempts in {span:.1f} s on {count} slot{'s' if count > 1 else ''}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{clean(title)}">',
        f"<style>{STYLE}</style>",
        '<defs><pattern id="failed" width="7" height="7" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><line class="stripe" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>',
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>',
        text("title", LEFT, 34, title),
        text("note", WIDTH - RIGHT, 34, note, "end"),
        *legend([(group, -weight, colours[group]) for weight, group in groups], attempts),
        *lanes(count),
        *axis(span, scale, height),
        *(bar(row, attempt, zero, scale, colours[attempt.group]) for row, attempt in rows),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def clean(value: str) -> str:
    """Text for XML: markup escaped, and what XML cannot hold (controls, surrogates) as a replacement mark."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value))


def text(style: str, x: float, y: float, value: str, anchor: str = "start") -> str:
    """One line of text."""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{clean(value)}</text>'


def legend(groups: list[tuple[str, int, str]], attempts: Sequence[TimelineAttempt]) -> list[str]:
    """A square, name and weight for each group, and the mark of a failed attempt if there is one."""
    parts, x = [], float(LEFT)
    for group, weight, colour in groups:
        shown = f"{group[:24]}, weight {weight}"
        parts.append(f'<rect x="{x:.1f}" y="54" width="13" height="13" rx="3" fill="{colour}"/>')
        parts.append(text("note", x + 19, 65, shown))
        x += 19 + len(shown) * 6.6 + 18
    if any(a.failed for a in attempts):
        parts.append(f'<g transform="translate({x + 6.5:.1f} 60.5)">{CROSS}</g>')
        parts.append(text("note", x + 19, 65, "attempt failed"))
    return parts


CROSS = '<circle class="disc" r="7"/><path class="cross" d="M-3 -3L3 3M-3 3L3 -3"/>'


def lanes(count: int) -> list[str]:
    """The background of each slot's row, and its number."""
    parts = []
    for row in range(count):
        y = TOP + row * (ROW + GAP)
        parts.append(f'<rect class="lane" x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{ROW}" rx="4"/>')
        parts.append(text("axis", LEFT - 10, y + ROW / 2 + 4, f"slot {row + 1}", "end"))
    return parts


def axis(span: float, scale: float, height: int) -> list[str]:
    """A line and a figure for each tick of the time axis."""
    step = tick_seconds(span)
    bottom = height - BOTTOM + GAP
    parts = []
    for number in range(int(span / step + 1e-9) + 1):
        x = LEFT + number * step * scale
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(text("axis", x, bottom + 16, f"{number * step:g} s", "middle"))
    return parts


def bar(row: int, attempt: TimelineAttempt, zero: float, scale: float, colour: str) -> str:
    """One attempt; its name inside if that fits, all of it in the tooltip."""
    x, y = LEFT + (attempt.start - zero) * scale, TOP + row * (ROW + GAP)
    seconds = max(0.0, attempt.end - attempt.start)
    width = max(1.5, seconds * scale - 1)  # a hair of the lane shows between neighbours
    place = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW}" rx="{min(4.0, width / 3):.1f}"'
    tip = f"{attempt.name}: {attempt.group}, attempt {attempt.attempt}, {attempt.cause}, {seconds:.2f} s"
    parts = [f"<g><title>{clean(tip)}</title>", f'<rect {place} fill="{colour}"/>']
    room = width - 10 - (18 if attempt.failed else 0)
    if attempt.failed:
        parts.append(f'<rect class="failed" {place} fill="url(#failed)"/>')
        middle = x + max(width - 11, width / 2)
        parts.append(f'<g transform="translate({middle:.1f} {y + ROW / 2})">{CROSS}</g>')
    letters = int(room / LETTER)
    if letters >= min(len(attempt.name), 5):
        name = attempt.name if len(attempt.name) <= letters else attempt.name[: letters - 1].rstrip(".: ") + "…"
        parts.append(text("label", x + 5, y + ROW / 2 + 3.5, name))
    return "".join((*parts, "</g>"))
