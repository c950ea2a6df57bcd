"""Draws cost against size from kept results: `python -m tests.bench chart [results.json]`.

Three lines, each beside the one that would be linear (or flat) from its first point: seconds by
rows, seconds by tables for the same rows, seconds by columns for the same values.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.readers import RESULTS
from tests.services.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

CHART = ROOT / "docs" / "_static" / "cost-against-size.svg"

_WIDTH, _HEIGHT, _MARGIN = 250, 170, 46


@dataclass(frozen=True)
class Panel:
    """A line.

    Attributes:
        title: What grows.
        points: Size and name of the log.
        linear: Whether the cost should grow as the size; if not, it should stay.
    """

    title: str
    points: tuple[tuple[int, str], ...]
    linear: bool


PANELS = (
    Panel("rows", tuple((10**power, f"rows{10**power}") for power in (5, 6, 7)), linear=True),
    Panel(
        "tables, 60,000 transactions in all",
        tuple((count, f"tables{count}") for count in (10, 100, 1000, 10_000)),
        linear=False,
    ),
    Panel(
        "columns, 6,000,000 values in all",
        ((8, "width8"), (40, "width40"), (200, "wide")),
        linear=False,
    ),
)


def main(arguments: Sequence[str] = ()) -> int:
    """Write the chart; return the exit code."""
    results = json.loads(Path(arguments[0] if arguments else RESULTS).read_text())
    seconds = {
        name.partition("/")[0]: row["seconds"]
        for name, row in results.items()
        if name.endswith("/file_to_arrow")
    }
    missing = [name for panel in PANELS for _, name in panel.points if name not in seconds]
    if missing:
        print(f"not measured yet: {', '.join(missing)}")
        return 1
    CHART.write_text(draw(seconds))
    print(f"drawn in {CHART}")
    return 0


def draw(seconds: dict[str, float]) -> str:
    """Return an SVG of all panels, logarithmic on both axes."""
    drawn = "".join(
        f'<g transform="translate({number * (_WIDTH + _MARGIN) + _MARGIN},24)">'
        f"{_panel(panel, seconds)}</g>"
        for number, panel in enumerate(PANELS)
    )
    width, height = len(PANELS) * (_WIDTH + _MARGIN) + 20, _HEIGHT + 76
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{drawn}</svg>\n'
    )


def _panel(panel: Panel, seconds: dict[str, float]) -> str:
    sizes = [size for size, _ in panel.points]
    taken = [seconds[name] for _, name in panel.points]
    first = taken[0]
    ideal = [first * size / sizes[0] if panel.linear else first for size in sizes]
    low, high = math.log10(min(*taken, *ideal) / 1.5), math.log10(max(*taken, *ideal) * 1.5)
    left, right = math.log10(sizes[0]), math.log10(sizes[-1])

    def at(size: float, value: float) -> tuple[float, float]:
        x = 12 + (math.log10(size) - left) / (right - left) * (_WIDTH - 50)
        return round(x, 1), round(_HEIGHT * (1 - (math.log10(value) - low) / (high - low)), 1)

    lines = [f'<path d="M0 0V{_HEIGHT}H{_WIDTH}" fill="none" stroke="black"/>\n']
    for values, style in ((ideal, 'stroke="gray" stroke-dasharray="4"'), (taken, 'stroke="navy"')):
        points = " ".join("{},{}".format(*at(*each)) for each in zip(sizes, values, strict=True))
        lines.append(f'<polyline points="{points}" fill="none" {style}/>\n')
    for size, value, following in zip(sizes, taken, [*taken[1:], 0.0], strict=True):
        x, y = at(size, value)
        # Where neither the line runs nor the axis.
        beside = min(y + 15, _HEIGHT - 3) if following > value else y - 8
        lines.append(
            f'<circle cx="{x}" cy="{y}" r="3" fill="navy"/>'
            f'<text x="{x + 5}" y="{beside:.1f}">{value:.2f} s</text>'
            f'<text x="{x}" y="{_HEIGHT + 15}" text-anchor="middle">{size:,}</text>\n'
        )
    lines.append(f'<text x="{_WIDTH // 2}" y="{_HEIGHT + 34}" text-anchor="middle">')
    lines.append(f"{panel.title}</text>\n")
    return "".join(lines)
