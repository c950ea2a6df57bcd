"""Draws what was measured and kept: `python -m tests.bench chart [reading.json [merging.json]]`.

Reading: seconds by rows, by tables for the same rows, and by columns for the same values, each
beside the line that would be in proportion to its first point, or flat. Merging: seconds of a
scheduled merge by tables, beside bare MERGEs. The page shows copies.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.readers import RESULTS
from tests.bench.scheduled import FORMATS, result_path
from tests.services.processes import RUN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT, _MARGIN = 250, 170, 46

# What grows, its sizes with the names of their logs, and whether the cost should grow as they do.
_LOGS = (
    ("rows", tuple((10**power, f"rows{10**power}") for power in (5, 6, 7)), True),
    (
        "tables, 60,000 transactions in all",
        tuple((count, f"tables{count}") for count in (10, 100, 1000, 10_000)),
        False,
    ),
    ("columns, 6,000,000 values in all", ((8, "width8"), (40, "width40"), (200, "wide")), False),
)


@dataclass(frozen=True)
class Panel:
    """A line of seconds by size, and a dashed one beside it."""

    title: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    beside: tuple[float, ...]


def main(arguments: Sequence[str] = ()) -> int:
    """Draw the charts whose results are kept; return the exit code."""
    paths = zip_longest(map(Path, arguments), (RESULTS, result_path()))
    drawn = [given or default for given, default in paths]
    charts = ("cost-against-size.svg", reading_panels), ("merge-against-tables.svg", merging_panels)
    for path, (name, find_panels) in zip(drawn, charts, strict=True):
        try:
            panels = find_panels(json.loads(path.read_text()))
        except (FileNotFoundError, KeyError) as error:
            print(f"{name}: not measured yet: {error}")
            continue
        (RUN_FOLDER / name).write_text(draw(panels))
        print(f"drawn in {RUN_FOLDER / name}")
    return 0


def reading_panels(results: dict[str, Any]) -> list[Panel]:
    """Return the panels of the results of `readers`; KeyError if one lacks a log."""
    panels = []
    for title, points, is_linear in _LOGS:
        sizes = tuple(size for size, _ in points)
        seconds = tuple(results[f"{log}/file_to_arrow"]["seconds"] for _, log in points)
        growth = (size / sizes[0] if is_linear else 1 for size in sizes)
        panels.append(Panel(title, sizes, seconds, tuple(seconds[0] * by for by in growth)))
    return panels


def merging_panels(results: dict[str, Any]) -> list[Panel]:
    """Return the panels of the results of `scheduled`, by processor time."""
    panels = []
    for format_ in FORMATS:
        counts = [int(name.split(", ")[1]) for name in results if name.startswith(format_)]
        costs = [results[f"{format_}, {count}"] for count in counts]
        seconds, bare = (tuple(cost[way]["cpu"] for cost in costs) for way in ("ours", "bare"))
        title = f"changed {format_.title()} tables of a merge"
        panels.append(Panel(title, tuple(counts), seconds, bare))
    return panels


def draw(panels: Sequence[Panel]) -> str:
    """Return an SVG of all panels, logarithmic on both axes."""
    drawn = "".join(
        f'<g transform="translate({number * (_WIDTH + _MARGIN) + _MARGIN},24)">{_panel(panel)}</g>'
        for number, panel in enumerate(panels)
    )
    width, height = len(panels) * (_WIDTH + _MARGIN) + 20, _HEIGHT + 76
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n{drawn}</svg>\n'
    )


def _panel(panel: Panel) -> str:
    sizes, taken, beside = panel.sizes, panel.seconds, panel.beside
    low, high = math.log10(min(*taken, *beside) / 1.5), math.log10(max(*taken, *beside) * 1.5)
    left, right = math.log10(sizes[0]), math.log10(sizes[-1])

    def at(size: float, value: float) -> tuple[float, float]:
        x = 12 + (math.log10(size) - left) / (right - left) * (_WIDTH - 50)
        return round(x, 1), round(_HEIGHT * (1 - (math.log10(value) - low) / (high - low)), 1)

    lines = [f'<path d="M0 0V{_HEIGHT}H{_WIDTH}" fill="none" stroke="black"/>\n']
    for values, style in ((beside, 'stroke="gray" stroke-dasharray="4"'), (taken, 'stroke="navy"')):
        points = " ".join("{},{}".format(*at(*point)) for point in zip(sizes, values, strict=True))
        lines.append(f'<polyline points="{points}" fill="none" {style}/>\n')
    for size, value, following in zip(sizes, taken, [*taken[1:], 0.0], strict=True):
        x, y = at(size, value)
        # Where neither the line runs nor the axis.
        text_y = min(y + 15, _HEIGHT - 3) if following > value else y - 8
        lines.append(
            f'<circle cx="{x}" cy="{y}" r="3" fill="navy"/>'
            f'<text x="{x + 5}" y="{text_y:.1f}">{value:.2f} s</text>'
            f'<text x="{x}" y="{_HEIGHT + 15}" text-anchor="middle">{size:,}</text>\n'
        )
    lines.append(f'<text x="{_WIDTH // 2}" y="{_HEIGHT + 34}" text-anchor="middle">')
    lines.append(f"{panel.title}</text>\n")
    return "".join(lines)
