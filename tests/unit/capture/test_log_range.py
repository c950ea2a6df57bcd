"""Progress: one line that says how far a range is."""

from __future__ import annotations

from airflow_provider_binlog.capture.log_range import Progress


def progress(bytes_total: int | None) -> str:
    return str(
        Progress(
            file="binlog.000007",
            offset=1_048_576,
            bytes=12_300_000,
            bytes_total=bytes_total,
            events=900,
            parts=2,
            rows=77,
            seconds=3.4,
        )
    )


def test_with_a_known_end() -> None:
    assert progress(80_000_000) == (
        "binlog.000007:1048576, 12.3 MB of 80.0 MB (15 %), 900 events, 77 rows in 2 parts, 3 s"
    )


def test_with_an_end_that_is_not_known() -> None:
    assert progress(None) == "binlog.000007:1048576, 12.3 MB, 900 events, 77 rows in 2 parts, 3 s"
