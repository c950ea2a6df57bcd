"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_binlog.plugins import formats


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
