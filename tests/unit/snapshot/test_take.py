"""Chunks of tables are shared among tasks."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.snapshot.take import share_chunks


@pytest.mark.parametrize(
    ("counts", "tasks", "shares"),
    [
        ([20], 10, [(0, 0, 8), (0, 8, 16), (0, 16, 20)]),
        ([20, 1], 3, [(0, 0, 10), (0, 10, 20), (1, 0, 1)]),
        ([20, 1], 2, [(0, 0, 20), (1, 0, 1)]),
        ([], 2, []),
    ],
)
def test_every_chunk_is_in_one_share(
    counts: list[int], tasks: int, shares: list[tuple[int, int, int]]
) -> None:
    assert share_chunks(counts, tasks) == shares


def test_many_chunks_are_shared_by_few_tasks() -> None:
    counts = [100_000, 1, 5_000]

    shares = share_chunks(counts, 1024)

    assert 512 < len(shares) <= 1024
    assert sum(stop - first for _, first, stop in shares) == sum(counts)
