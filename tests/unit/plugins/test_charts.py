"""The charts: their geometry, and waits beside the times of commits, manifests and merges."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow_provider_binlog.plugins.charts import chart_of_lag, draw, time_line
from airflow_provider_binlog.status.merges import Published
from airflow_provider_binlog.status.ranges import Memory
from airflow_provider_binlog.status.source import read_status
from tests.support.stores import open_store
from tests.unit.plugins.test_sources import extract
from tests.unit.spark.history import Source
from tests.unit.status.staged import create

COMMITTED = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_a_range_waits_for_the_first_merge_that_has_published_it(tmp_path: Path) -> None:
    source = Source(open_store(f"file://{tmp_path}"), "shop")
    (orders,) = create(source, "orders")
    source.commit()
    orders.insert(id=2)
    source.commit()
    orders.insert(id=3)
    source.commit()
    status = read_status(source.store, "shop", Memory(), "here", ranges=60)
    ranges = [
        replace(
            summary,
            first_commit=COMMITTED,
            created_at=COMMITTED + timedelta(seconds=summary.sequence),
        )
        for summary in status.ranges
    ]
    # As a job does that follows: it runs for an hour, and publishes every few seconds.
    published = [
        Published(COMMITTED + timedelta(seconds=seconds), through)
        for seconds, through in ((4, 1), (9, 2), (3600, 2))
    ]
    # Of another lake, older records were not read.
    published.append(Published(COMMITTED + timedelta(seconds=5), through=2, after=2))

    texts = [bar.text for bar in chart_of_lag(ranges, published).bars]

    assert [text.partition(": ")[2] for text in texts] == [
        "the first change was staged after 1 s, merged after 4 s",
        "the first change was staged after 2 s, merged after 9 s",
        "the first change was staged after 3 s",
    ]


def test_bars_fill_the_chart_and_none_is_invisible() -> None:
    chart = draw([(None, "none", 1), (1, "one", 2), (1e6, "all", 3)], str)

    assert [bar.height for bar in chart.bars] == [0, 1, chart.height]
    assert [bar.y + bar.height for bar in chart.bars] == [chart.height] * 3
    assert chart.bars[-1].x + chart.bars[-1].width <= chart.width
    assert chart.top == "1000000.0"
    assert draw([], str).bars == ()


def test_a_line_leaves_out_what_is_not_known() -> None:
    bars = [(None, "", 1)] * 3

    assert draw(bars, str, [1, None, 2]).line.split() == ["100.00,60.00", "500.00,0.00"]


def test_a_span_is_where_its_run_was_and_none_is_invisible() -> None:
    runs = [extract(hour=10), extract(hour=12)]

    line = time_line(runs, datetime(2026, 11, 24, 14, tzinfo=UTC))

    assert line is not None
    assert [(span.left, span.width) for span in line[2]] == [(0, 0.417), (50, 0.417)]
    a_day = time_line(runs, datetime(2026, 11, 25, tzinfo=UTC))
    assert a_day is not None
    assert {span.width for span in a_day[2]} == {0.4}
    assert time_line([], COMMITTED) is None
