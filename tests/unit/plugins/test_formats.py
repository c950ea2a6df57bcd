"""Values as people read them, and the geometry of the charts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_binlog.plugins import formats


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"),
     (1 << 62, "4096.0 PiB")],
)  # fmt: skip
def test_bytes(size: int, expected: str) -> None:
    assert formats.show_bytes(size) == expected


def test_counts() -> None:
    assert [formats.show_count(count, "row") for count in (0, 1, 1234)] == [
        "0 rows", "1 row", "1,234 rows"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"), (0.42, "0.4 s"), (9.96, "10 s"), (59.6, "1 min"), (61, "1 min 1 s"),
        (3600, "1 h"), (3661, "1 h 1 min"), (90_061, "1 d 1 h"), (-61, "-1 min 1 s"),
    ],
)  # fmt: skip
def test_durations(seconds: float, expected: str) -> None:
    assert formats.show_duration(seconds) == expected
    assert formats.show_duration(timedelta(seconds=seconds)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "now"), (-5, "now"), (59, "59 s ago"), (60, "1 min ago"), (7199, "1 h ago"),
     (1e6, "11 d ago")],
)  # fmt: skip
def test_ago(seconds: float, expected: str) -> None:
    now = datetime(2026, 11, 24, tzinfo=UTC)

    assert formats.show_ago(now - timedelta(seconds=seconds), now) == expected


@pytest.mark.parametrize(("value", "expected"), [(0, 1), (1, 1), (3, 5), (70, 100), (1001, 2000)])
def test_a_chart_ends_at_a_round_number(value: float, expected: float) -> None:
    assert formats.round_up(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(0, 1), (31, 60), (1900, 3600), (1e9, 1e9)])
def test_a_chart_of_time_ends_at_a_round_span(value: float, expected: float) -> None:
    assert formats.round_up_seconds(value) == expected


def test_bars_fill_the_chart_and_none_is_invisible() -> None:
    chart = formats.draw_bars([(0, "none", 1), (1, "one", 2), (1e6, "all", 3)], 1e6, "top")

    assert [bar.height for bar in chart.bars] == [0, 1, chart.height]
    assert [bar.y + bar.height for bar in chart.bars] == [chart.height] * 3
    assert chart.bars[-1].x + chart.bars[-1].width <= chart.width
    assert formats.draw_bars([], 1, "top").bars == ()


def test_a_line_leaves_out_what_is_not_known() -> None:
    assert formats.draw_line([1, None, 2], 2).split() == ["100.00,60.00", "500.00,0.00"]


def test_a_span_lies_within_the_time_line() -> None:
    first = datetime(2026, 11, 24, tzinfo=UTC)
    hour = timedelta(hours=1)

    assert formats.locate_span(first + hour, first + 2 * hour, first, first + 4 * hour) == (25, 25)
    assert formats.locate_span(first - hour, first, first, first + hour) == (0, 0.4)
