"""ProgressReporter: one line that says how far a range is."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.capture.log_range import ProgressReporter
from airflow_provider_binlog.position import Position


@pytest.mark.parametrize(("bytes_total", "share"), [(80_000_000, " of 80.0 MB (15 %)"), (None, "")])
def test_a_line_says_how_far_a_range_is(
    bytes_total: int | None, share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 6.4])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    lines: list[str] = []
    reporter = ProgressReporter(Position("binlog.000007", 4), bytes_total, lines.append)

    for offset in (1_000, 12_300_004):
        reporter.report(Position("binlog.000007", offset), events=900, parts=2, rows=77)

    assert lines == [f"binlog.000007:12300004, 12.3 MB{share}, 900 events, 77 rows in 2 parts, 6 s"]
