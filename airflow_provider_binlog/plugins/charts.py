"""The charts of a source: rows and lag of its ranges, and the runs of its tasks over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from airflow_provider_binlog.plugins.formats import (
    Chart,
    Span,
    draw_bars,
    draw_line,
    locate_span,
    round_up,
    round_up_seconds,
    show_duration,
    show_number,
    show_time,
)
from airflow_provider_binlog.plugins.sources import CAPTURE, MERGE, SNAPSHOT, TaskRun
from airflow_provider_binlog.status.merges import Published
from airflow_provider_binlog.status.ranges import RangeSummary

ROWS = {"Snapshot": (SNAPSHOT,), "Stage": CAPTURE, "Merge": (MERGE,)}


def chart_of_rows(ranges: Sequence[RangeSummary]) -> Chart:
    """Return the change rows of each range, from the oldest to the newest."""
    top = round_up(max((summary.rows for summary in ranges), default=0))
    values = [
        (
            float(summary.rows),
            f"{_name(summary)}: {show_number(summary.rows)} rows",
            summary.sequence,
        )
        for summary in reversed(ranges)
    ]
    return draw_bars(values, top, show_number(int(top)))


def chart_of_lag(ranges: Sequence[RangeSummary], published: Sequence[Published]) -> Chart:
    """Return how long the first change of each range waited until it was staged, and merged."""
    ordered = list(reversed(ranges))
    staged = [
        None if summary.waited is None else summary.waited.total_seconds() for summary in ordered
    ]
    merged = [_merged_after(summary, published) for summary in ordered]
    known = [value for value in (*staged, *merged) if value is not None]
    top = round_up_seconds(max(known, default=0.0))
    values = [
        (
            value or 0.0,
            _describe_wait(summary, value, after),
            summary.sequence,
        )
        for summary, value, after in zip(ordered, staged, merged, strict=True)
    ]
    chart = draw_bars(values, top, show_duration(top))
    line = draw_line(merged, top)
    return Chart(chart.width, chart.height, chart.top, chart.bars, (("merged", line),))


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


def time_line(runs: Sequence[TaskRun]) -> tuple[datetime, datetime, tuple[Span, ...]] | None:
    """Return the runs of tasks between the first start and now; None if nothing ran."""
    now = datetime.now(UTC)
    shown = [run for run in runs if run.started is not None]
    if not shown:
        return None
    first = min(run.started for run in shown if run.started)
    spans = []
    for kind, operators in ROWS.items():
        for run in shown:
            if run.operator not in operators or run.started is None:
                continue
            end = run.ended or now
            left, width = locate_span(run.started, end, first, now)
            spans.append(
                Span(
                    left,
                    width,
                    kind,
                    f"{kind}, {show_time(run.started)}: {run.state}, "
                    f"{show_duration(end - run.started)}",
                    run.state == "failed",
                    run.is_running,
                )
            )
    return first, now, tuple(spans)
