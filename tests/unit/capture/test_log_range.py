"""ProgressReporter: how much of a range is read, over files."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.capture.log_range import ProgressReporter
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.read_progress import ReadProgress


def test_bytes_are_counted_over_files(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 6.5])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    seen: list[ReadProgress] = []
    reporter = ProgressReporter(Position("binlog.000007", 1_000), 80_000, seen.append)

    reporter.report(Position("binlog.000007", 5_000), rows=7)
    reporter.report(Position("binlog.000008", 300), rows=77)

    assert seen == [
        ReadProgress(4_000, 80_000, "bytes", rows=7, seconds=1.0, at="binlog.000007:5000"),
        ReadProgress(4_300, 80_000, "bytes", rows=77, seconds=6.5, at="binlog.000008:300"),
    ]
