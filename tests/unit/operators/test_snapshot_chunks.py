"""Chunks of tables, shared among tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import BinlogSnapshotChunksOperator, BinlogSource
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators.snapshot import read_table_name
from airflow_provider_binlog.operators.snapshot_chunks import ChunkShare, share_chunks

SHOP = BinlogSource("shop", start="now")


@pytest.mark.parametrize(
    ("counts", "tasks", "shares"),
    [
        ([3], 10, [(0, 0, 1), (0, 1, 2), (0, 2, 3)]),
        ([3, 1], 3, [(0, 0, 2), (0, 2, 3), (1, 0, 1)]),
        ([3, 1], 2, [(0, 0, 3), (1, 0, 1)]),
        ([], 2, []),
    ],
)
def test_every_chunk_is_in_one_share(
    counts: list[int], tasks: int, shares: list[tuple[int, int, int]]
) -> None:
    assert share_chunks(counts, tasks) == [ChunkShare(*each) for each in shares]


def test_many_chunks_are_shared_by_few_tasks() -> None:
    counts = [100_000, 1, 5_000]

    shares = share_chunks(counts, 1024)

    assert 512 < len(shares) <= 1024
    assert sum(each.stop - each.first for each in shares) == sum(counts)


def test_each_table_takes_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="more tables than tasks"):
        share_chunks([1, 1, 1], 2)
    operator = BinlogSnapshotChunksOperator(
        task_id="share", source=SHOP, staging_path="/s", tables=["shop.a", "shop.b"], max_tasks=1
    )
    plans = [SimpleNamespace(chunk_count=1, name=("my.shop", name), id=name) for name in "ab"]
    monkeypatch.setattr(operator, "_begin", lambda _: plans)
    context: Any = {"ti": SimpleNamespace(dag_id="dag", run_id="run", task_id="share")}
    with pytest.raises(AirflowFailException, match="more tables than tasks"):
        operator.execute(context)

    operator.max_tasks = 2
    tables = [each["table"] for each in operator.execute(context)]
    assert tables == ["`my.shop`.a", "`my.shop`.b"]
    assert [read_table_name(each) for each in tables] == [each.name for each in plans]
