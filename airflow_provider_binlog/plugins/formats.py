"""Values as people read them, and the geometry of the charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def show_bytes(size: float) -> str:
    """Return `1.5 MiB`."""
    power = 0
    while abs(size) >= 1024 and power < len(_UNITS) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.0f} {_UNITS[power]}" if power == 0 else f"{size:.1f} {_UNITS[power]}"


def show_number(value: int) -> str:
    """Return `1,234,567`."""
    return f"{value:,}"


def show_count(count: int, noun: str) -> str:
    """Return `1 table` or `2 tables`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def show_duration(span: timedelta | float) -> str:
    """Return the two largest units: `2 h 5 min`; `0.4 s` below ten seconds."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 0:
        return f"-{show_duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    rest, parts = round(seconds), []
    for size, unit in _STEPS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def show_time(time: datetime) -> str:
    """Return `2026-11-24 19:12:46 UTC`."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def show_ago(time: datetime, now: datetime) -> str:
    """Return `5 min ago`."""
    seconds = round((now - time).total_seconds())
    if seconds < 1:
        return "now"
    size, unit = next((size, unit) for size, unit in _STEPS if seconds >= size)
    return f"{seconds // size} {unit} ago"


@dataclass(frozen=True)
class Bar:
    """A bar, or a point of a line, of a chart; in units of its view box."""

    x: float
    y: float
    width: float
    height: float
    text: str
    sequence: int


@dataclass(frozen=True)
class Chart:
    """The geometry of a chart.

    Attributes:
        width, height: Of its view box.
        top: The value of the upper line, for people.
        bars: From left to right.
        lines: Points of lines that are drawn over them, as SVG has them, by their names.
    """

    width: int
    height: int
    top: str
    bars: tuple[Bar, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()


WIDTH, HEIGHT = 600, 120
_GAP = 0.2


def round_up(value: float) -> float:
    """Return the next value of 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


_ROUND_SECONDS = tuple(
    count * size
    for size, counts in (
        (1, (1, 2, 5, 10, 20, 30)),
        (60, (1, 2, 5, 10, 20, 30)),
        (3600, (1, 2, 4, 8, 12)),
        (86_400, (1, 2, 4, 7, 14, 28)),
    )
    for count in counts
)


def round_up_seconds(value: float) -> float:
    """Return the next span of time that is a round one."""
    return next((span for span in _ROUND_SECONDS if span >= value), value)


def draw_bars(values: Sequence[tuple[float, str, int]], top: float, text: str) -> Chart:
    """Return a chart with a bar for each value, given with its text and its manifest's number."""
    step = WIDTH / max(len(values), 1)
    bars = []
    for index, (value, name, sequence) in enumerate(values):
        height = HEIGHT * min(value / top, 1.0)
        if value > 0:
            height = max(height, 1.0)
        bars.append(
            Bar(
                round(index * step + step * _GAP / 2, 2),
                round(HEIGHT - height, 2),
                round(step * (1 - _GAP), 2),
                round(height, 2),
                name,
                sequence,
            )
        )
    return Chart(WIDTH, HEIGHT, text, tuple(bars))


def draw_line(values: Sequence[float | None], top: float) -> str:
    """Return the points of a line through the middle of each bar; one of None has none."""
    step = WIDTH / max(len(values), 1)
    points = (
        f"{index * step + step / 2:.2f},{HEIGHT - HEIGHT * min(value / top, 1.0):.2f}"
        for index, value in enumerate(values)
        if value is not None
    )
    return " ".join(points)


@dataclass(frozen=True)
class Span:
    """A run of a task on the time line, in hundredths of its width."""

    left: float
    width: float
    kind: str
    text: str
    is_failed: bool
    is_running: bool


def locate_span(
    start: datetime, end: datetime, first: datetime, last: datetime
) -> tuple[float, float]:
    """Return where a run begins, and how wide it is, between the two ends of a time line."""
    whole = max((last - first).total_seconds(), 1.0)
    left = max(0.0, (start - first).total_seconds() / whole * 100)
    right = min(100.0, (end - first).total_seconds() / whole * 100)
    return round(left, 3), round(max(right - left, 0.4), 3)
