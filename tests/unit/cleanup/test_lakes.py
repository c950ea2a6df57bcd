"""A lake as a cleanup finds it: by two of its records, however many there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from airflow_provider_binlog.cleanup.lakes import Lake, find_lake
from airflow_provider_binlog.spark.merge.progress import Progress, published_at, save_progress
from tests.unit.spark.memory_files import Files

START, HOUR = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)
FOLDER = "_merged/x"


class CountedFiles(Files):
    """Files in memory, and how many were read."""

    read_count = 0

    def read(self, path: str) -> bytes | None:
        self.read_count += 1
        return super().read(path)


def publish(files: Files, count: int) -> list[Progress]:
    """Publish a record every hour."""
    return [
        save_progress(files, FOLDER, Progress(), loaded=None, merged=(), now=START + number * HOUR)
        for number in range(count)
    ]


@pytest.mark.parametrize("hours", range(-1, 4))
def test_it_is_the_newest_readable_record_and_that_before_a_time_or_else_the_first(
    hours: int,
) -> None:
    before = START + hours * HOUR
    for are_cut in product([False, True], repeat=3):
        files = Files()
        readable = []
        for record, is_cut in zip(publish(files, 3), are_cut, strict=True):
            if is_cut:
                files.write(f"{FOLDER}/{record.id}.json", b"{")
            else:
                readable.append(record)

        lake = find_lake(files, "x", before)

        then = [record for record in readable if published_at(record.id) <= before]
        earlier = then[-1:] or readable[:1]
        assert lake == (Lake("x", readable[-1], earlier[0]) if readable else None)


@pytest.mark.parametrize("count", [2, 40])
def test_two_records_are_read_however_many_there_are(count: int) -> None:
    files = CountedFiles()
    publish(files, count)
    files.read_count = 0

    find_lake(files, "x", START)

    assert files.read_count == 2
