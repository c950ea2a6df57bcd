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
from airflow_provider_binlog.status.ranges import RangeSummary

ROWS = {"Snapshot": (SNAPSHOT,), "Stage": CAPTURE, "Merge": (MERGE,)}


def chart_of_rows(ranges: Sequence[RangeSummary]) -> Chart:
    """Return the change rows of each range, from the oldest to the newest."""
    top = round_up(max((each.rows for each in ranges), default=0))
    values = [
        (
            float(each.rows),
            f"{_name(each)}: {show_number(each.rows)} rows",
            each.sequence,
        )
        for each in reversed(ranges)
    ]
    return draw_bars(values, top, show_number(int(top)))


def chart_of_lag(ranges: Sequence[RangeSummary], merges: Sequence[TaskRun]) -> Chart:
    """Return how long the first change of each range waited until it was staged, and merged."""
    ordered = list(reversed(ranges))
    staged = [None if each.waited is None else each.waited.total_seconds() for each in ordered]
    merged = [_merged_after(each, merges) for each in ordered]
    known = [value for value in (*staged, *merged) if value is not None]
    top = round_up_seconds(max(known, default=0.0))
    values = [
        (
            value or 0.0,
            _describe_wait(each, value, after),
            each.sequence,
        )
        for each, value, after in zip(ordered, staged, merged, strict=True)
    ]
    chart = draw_bars(values, top, show_duration(top))
    line = draw_line(merged, top)
    return Chart(chart.width, chart.height, chart.top, chart.bars, (("merged", line),))


def _name(each: RangeSummary) -> str:
    return f"Manifest {each.sequence}, {show_time(each.created_at)}"


def _describe_wait(each: RangeSummary, staged: float | None, merged: float | None) -> str:
    if staged is None:
        return f"{_name(each)}: no rows"
    text = f"{_name(each)}: the first change was staged after {show_duration(staged)}"
    return text if merged is None else f"{text}, merged after {show_duration(merged)}"


def _merged_after(each: RangeSummary, merges: Sequence[TaskRun]) -> float | None:
    """Return seconds from the first commit of a range to the end of the merge that has it."""
    ends = [
        run.ended
        for run in merges
        if run.state == "success"
        and run.ended is not None
        and run.merge is not None
        and run.merge.through >= each.sequence
        and run.ended >= each.created_at
    ]
    if not ends or each.first_commit is None:
        return None
    return (min(ends) - each.first_commit).total_seconds()


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
