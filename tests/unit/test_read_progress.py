"""Progress: a line a person can plan by, and few of them over hours."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_provider_binlog.read_progress import PacedProgress, ProgressReporter, ReadProgress

AT = "binlog.000007:12300004"


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (
            ReadProgress(12_300_000, 80_000_000, "bytes", rows=77_000, seconds=5.0, at=AT),
            f"at {AT}, 12.3 of 80.0 MB (15%), 77,000 rows, 15,400 rows/s, 28 s left",
        ),
        (
            ReadProgress(12_300_000, None, "bytes", rows=9, seconds=3.0, at=AT),
            f"at {AT}, 12.3 MB, 9 rows, 3 rows/s",
        ),
        (
            ReadProgress(3, 12, "chunks", rows=4_000_000, seconds=2_000.0),
            "3 of 12 chunks (25%), 4,000,000 rows, 2,000 rows/s, 100 min left",
        ),
        (
            ReadProgress(1, 9, "chunks", rows=1, seconds=1_000.0),
            "1 of 9 chunks (11%), 1 rows, 0 rows/s, 2 h 13 min left",
        ),
        # Nothing of the first chunk's share is known, nor of an empty range.
        (ReadProgress(0, 1, "chunks", rows=50, seconds=0.0), "0 of 1 chunks (0%), 50 rows"),
        (ReadProgress(9, 0, "bytes", rows=0, seconds=1.0), "0.0 MB, 0 rows, 0 rows/s"),
        # The log grew after its size was read.
        (
            ReadProgress(9_000_000, 8_000_000, "bytes", rows=0, seconds=1.0),
            "9.0 of 8.0 MB (100%), 0 rows, 0 rows/s, 0 s left",
        ),
    ],
)
def test_a_line(progress: ReadProgress, line: str) -> None:
    assert str(progress) == line


def test_steps_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 16.5, 17.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    seen: list[ReadProgress] = []
    reporter = ProgressReporter(80_000, "bytes", seen.append)

    reporter.add(4_000, rows=7, at=AT)
    reporter.add(rows=70)
    reporter.add(300)

    assert seen == [
        ReadProgress(4_000, 80_000, "bytes", rows=7, seconds=1.0, at=AT),
        ReadProgress(4_000, 80_000, "bytes", rows=77, seconds=6.5),
        ReadProgress(4_300, 80_000, "bytes", rows=77, seconds=7.0),
    ]


def test_a_task_of_hours_writes_few_lines_and_one_of_seconds_none() -> None:
    written: list[int] = []
    now = 0
    paced = PacedProgress(lambda _: written.append(now))

    for now in range(6 * 3600):
        paced(ReadProgress(now, None, "bytes", rows=0, seconds=float(now)))

    assert written[:4] == [5, 10, 15, 20]
    assert len(written) < 100
    assert max(later - sooner for sooner, later in pairwise(written)) <= 300
