"""The charts of a source: rows and lag of its ranges, and the runs of its tasks over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_binlog.plugins.formats import show_duration, show_number, show_time
from airflow_provider_binlog.plugins.sources import CAPTURE, MERGE, SNAPSHOT, TaskRun
from airflow_provider_binlog.status.merges import Published
from airflow_provider_binlog.status.ranges import RangeSummary

ROWS = {"Snapshot": (SNAPSHOT,), "Stage": CAPTURE, "Merge": (MERGE,)}

WIDTH, HEIGHT = 600, 120
_GAP = 0.2
_SPAN_MIN = 0.4
"""So many hundredths of the time line are seen."""


@dataclass(frozen=True)
class Bar:
    """A bar of a chart, in units of its view box."""

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
        top: The value of its upper edge, for people.
        bars: From left to right.
        line: The points of a line that is drawn over them, as SVG has them.
        width, height: Of its view box.
    """

    top: str
    bars: tuple[Bar, ...]
    line: str
    width: int = WIDTH
    height: int = HEIGHT


def draw(
    bars: Sequence[tuple[float | None, str, int]],
    show: Callable[[float], str],
    line: Sequence[float | None] = (),
) -> Chart:
    """Return a chart as high as its highest value, which `show` names.

    Args:
        bars: Value, text and manifest of each; one that is not zero is seen, however low it is.
        show: Returns a value for people.
        line: A value above the middle of each bar; one of None has no point.
    """
    values = (*(value for value, _, _ in bars), *line)
    top = max((value for value in values if value is not None and value > 0), default=1)
    step = WIDTH / max(len(bars), 1)
    drawn = []
    for index, (value, text, sequence) in enumerate(bars):
        height = max(HEIGHT * value / top, 1.0) if value else 0.0
        x, y = index * step + step * _GAP / 2, HEIGHT - height
        box = round(x, 2), round(y, 2), round(step * (1 - _GAP), 2), round(height, 2)
        drawn.append(Bar(*box, text, sequence))
    points = (
        f"{index * step + step / 2:.2f},{HEIGHT - HEIGHT * value / top:.2f}"
        for index, value in enumerate(line)
        if value is not None
    )
    return Chart(show(top), tuple(drawn), " ".join(points))


def chart_of_rows(ranges: Sequence[RangeSummary]) -> Chart:
    """Return the change rows of each range, from the oldest to the newest."""
    bars = [
        (summary.rows, f"{_name(summary)}: {show_number(summary.rows)} rows", summary.sequence)
        for summary in reversed(ranges)
    ]
    return draw(bars, show_number)


def chart_of_lag(ranges: Sequence[RangeSummary], published: Sequence[Published]) -> Chart:
    """Return how long the first change of each range waited until it was staged, and merged."""
    bars, line = [], []
    for summary in reversed(ranges):
        staged = None if summary.waited is None else summary.waited.total_seconds()
        merged = _merged_after(summary, published)
        bars.append((staged, _describe_wait(summary, staged, merged), summary.sequence))
        line.append(merged)
    return draw(bars, show_duration, line)


def _name(summary: RangeSummary) -> str:
    return f"Manifest {summary.sequence}, {show_time(summary.created_at)}"


def _describe_wait(summary: RangeSummary, staged: float | None, merged: float | None) -> str:
    if staged is None:
        return f"{_name(summary)}: no rows"
    text = f"{_name(summary)}: the first change was staged after {show_duration(staged)}"
    return text if merged is None else f"{text}, merged after {show_duration(merged)}"


def _merged_after(summary: RangeSummary, published: Sequence[Published]) -> float | None:
    """Return seconds from the first commit of a range until a merge has published it."""
    sequence = summary.sequence
    times = [merge.time for merge in published if merge.after < sequence <= merge.through]
    if not times or summary.first_commit is None:
        return None
    return (min(times) - summary.first_commit).total_seconds()


@dataclass(frozen=True)
class Span:
    """A run of a task on the time line, in hundredths of its width."""

    left: float
    width: float
    kind: str
    text: str
    is_failed: bool
    is_running: bool


def time_line(
    runs: Sequence[TaskRun], now: datetime
) -> tuple[datetime, datetime, tuple[Span, ...]] | None:
    """Return the runs of tasks between the first start and now; None if nothing ran."""
    starts = [run.started for run in runs if run.started is not None]
    if not starts:
        return None
    first = min(starts)
    hundredth = max((now - first).total_seconds(), 1.0) / 100
    spans = []
    for kind, operators in ROWS.items():
        for run in runs:
            if run.operator not in operators or run.started is None:
                continue
            end = run.ended or now
            taken = show_duration(end - run.started)
            spans.append(
                Span(
                    round((run.started - first).total_seconds() / hundredth, 3),
                    round(max((end - run.started).total_seconds() / hundredth, _SPAN_MIN), 3),
                    kind,
                    f"{kind}, {show_time(run.started)}: {run.state}, {taken}",
                    run.state == "failed",
                    run.is_running,
                )
            )
    return first, now, tuple(spans)
